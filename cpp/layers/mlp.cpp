#include "layers/mlp.h"

#include <algorithm>

#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// About so many rows go through both layers at once: their hidden activations stay in the cache.
// docs/develop/optimizations.md: even-mlp.
constexpr std::int64_t kMlpRows = 1024;

// Where each of many threads has rows of its own for both layers, nobody waits between them, and no
// thread reads what another one wrote. The weights, of so many numbers each, go by for each part.
// docs/develop/optimizations.md: own-mlp-rows.
constexpr int kOwnThreads = 8;
constexpr std::int64_t kOwnRows = 128, kOwnWeights = 1 << 20;

}  // namespace

void mlp_add_(Context& ctx, const PackedAffine& lin1, Activation activation,
              const PackedAffine& lin2, ConstView input, View x) {
  const std::int64_t rows = input.shape.rows();
  const std::int64_t channels = input.shape.last(), hidden_channels = lin1.packed.rows;
  const auto add_part = [&](Context& own, std::int64_t begin, std::int64_t count) {
    const Workspace::Scope scratch(own.workspace);
    const Shape part{count, channels};
    const View hidden = own.workspace.floats({count, hidden_channels});
    linear(own, ConstView(input.data + begin * channels, part), lin1.packed,
           {.bias = lin1.bias, .activation = activation}, hidden);
    const View target{x.data + begin * channels, part};
    linear(own, hidden, lin2.packed, {.bias = lin2.bias, .residual = target}, target);
  };
  const bool own_rows = ctx.num_threads >= kOwnThreads && rows >= 2 * kOwnRows * ctx.num_threads &&
                        channels * hidden_channels <= kOwnWeights &&
                        lin1.packed.products() == Products::kBFloat16 &&
                        lin2.packed.products() == Products::kBFloat16;
  if (own_rows) {
    ctx.workspace.reserve_threads(ctx.num_threads);
    parallel_for(
        ctx.num_threads, rows, kOwnRows, [&](std::int64_t begin, std::int64_t end, int thread) {
          Context own{.kernels = ctx.kernels, .workspace = ctx.workspace.of_thread(thread)};
          add_part(own, begin, end - begin);
        });
    return;
  }
  // Even parts, for whose few last rows the weights would go by once more; whole tiles.
  const std::int64_t parts = std::max<std::int64_t>((rows + kMlpRows / 2) / kMlpRows, 1);
  const std::int64_t step = round_up((rows + parts - 1) / parts, ctx.kernels.gemm_mr);
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    add_part(ctx, begin, std::min(step, rows - begin));
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
