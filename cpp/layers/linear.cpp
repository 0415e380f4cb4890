#include "layers/linear.h"

#include <algorithm>
#include <utility>

#include "core/cores.h"
#include "core/parallel.h"
#include "layers/fold.h"

namespace sam_rlx {
namespace {

// Rows of `bytes` bytes in another order.
void copy_rows(const std::vector<std::int64_t>& order, const void* from, std::int64_t bytes,
               void* to) {
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const out = static_cast<std::byte*>(to);
  const auto rows = static_cast<std::int64_t>(order.size());
  constexpr std::int64_t kGrain = 64;
  const std::int64_t work = bytes / static_cast<std::int64_t>(sizeof(float)) * kNumberWork;
  parallel_for({loading_threads(rows * work), rows, kGrain, work},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t row = order[static_cast<std::size_t>(i)];
                   std::copy_n(source + row * bytes, bytes, out + i * bytes);
                 }
               });
}

Tensor reordered(const std::vector<std::int64_t>& order, const Tensor& rows) {
  Tensor result(rows.shape());
  const std::int64_t width = rows.numel() / rows.shape()[0];
  copy_rows(order, rows.data(), width * static_cast<std::int64_t>(sizeof(float)), result.data());
  return result;
}

BlockRows reordered(const std::vector<std::int64_t>& order, const BlockRows& rows) {
  const std::int64_t bytes = rows.row_bytes();
  BlockRows result{rows.format, rows.rows, rows.cols,
                   allocate_aligned(static_cast<std::size_t>(rows.rows * bytes))};
  copy_rows(order, rows.bytes.get(), bytes, result.bytes.get());
  return result;
}

}  // namespace

void Linear::visit(ParamVisitor& v) {
  v.matrix("weight", weight, blocks, {out_features, in_features});
  if (has_bias) v("bias", bias, {out_features});
}

void Linear::reorder_rows(const std::vector<std::int64_t>& order) {
  if (blocks) {
    blocks = reordered(order, blocks);
  } else {
    weight = reordered(order, weight);
  }
  if (has_bias) bias = reordered(order, bias);
}

void Linear::absorb(Linear& next) {
  sam_rlx::absorb({weight, bias}, {next.weight, next.bias});
  out_features = next.out_features;
}

void Linear::pack(const KernelTable& kernels) {
  if (blocks) {
    packed = pack_blocks(kernels, std::move(blocks));
  } else if (!weight.empty()) {  // not absorbed by another layer
    packed = pack_matrix(kernels, weight, weight_format);
    weight = Tensor();
  }
}

View Linear::forward(Context& ctx, ConstView x, Activation activation) const {
  const View out = ctx.workspace.floats(x.shape.with_last(out_features));
  linear(ctx, x, packed, {.bias = bias.data(), .activation = activation}, out);
  return out;
}

void Linear::forward_add(Context& ctx, ConstView x, ConstView residual, View out) const {
  linear(ctx, x, packed, {.bias = bias.data(), .residual = residual}, out);
}

}  // namespace sam_rlx
