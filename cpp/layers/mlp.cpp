#include "layers/mlp.h"

#include <algorithm>

#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// About so many rows go through both layers at once: their hidden activations stay in the cache.
// docs/develop/optimizations.md: even-mlp.
constexpr std::int64_t kMlpRows = 1024;

}  // namespace

void mlp_add_(Context& ctx, const PackedAffine& lin1, Activation activation,
              const PackedAffine& lin2, ConstView input, View x) {
  const std::int64_t rows = input.shape.rows();
  const std::int64_t channels = input.shape.last();
  // Even parts, for whose few last rows the weights would go by once more; whole tiles.
  const std::int64_t parts = std::max<std::int64_t>((rows + kMlpRows / 2) / kMlpRows, 1);
  const std::int64_t step = round_up((rows + parts - 1) / parts, ctx.kernels.gemm_mr);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const Workspace::Scope scratch(ctx.workspace);
    const std::int64_t count = std::min(step, rows - begin);
    const Shape part{count, channels};
    const View hidden = ctx.workspace.floats({count, lin1.packed.rows});
    linear(ctx, ConstView(input.data + begin * channels, part), lin1.packed,
           {.bias = lin1.bias, .activation = activation}, hidden);
    const View target{x.data + begin * channels, part};
    linear(ctx, hidden, lin2.packed, {.bias = lin2.bias, .residual = target}, target);
  }
}

void MLPBlock::visit(ParamVisitor& v) {
  v(numbered ? "layers.0" : "lin1", lin1);
  v(numbered ? "layers.1" : "lin2", lin2);
}

void MLPBlock::forward_add_(Context& ctx, ConstView input, View x) const {
  mlp_add_(ctx, lin1, activation, lin2, input, x);
}

MLP::MLP(std::int64_t input_dim, std::int64_t hidden_dim, std::int64_t output_dim,
         std::int64_t num_layers) {
  for (std::int64_t i = 0; i < num_layers; ++i) {
    layers.emplace_back(i == 0 ? input_dim : hidden_dim,
                        i + 1 == num_layers ? output_dim : hidden_dim);
  }
}

void MLP::visit(ParamVisitor& v) { v("layers", layers); }

View MLP::forward(Context& ctx, ConstView x) const {
  const View out = ctx.workspace.floats(x.shape.with_last(layers.back().out_features));
  const Workspace::Scope scratch(ctx.workspace);
  ConstView hidden = x;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    hidden = layers[i].forward(ctx, hidden, Activation::kRelu);
  }
  const Linear& last = layers.back();
  linear(ctx, hidden, last.packed, {.bias = last.bias.data()}, out);
  return out;
}

}  // namespace sam_rlx
