#include "ops/weighted_conv.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/operands.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kSide = 3, kTaps = kSide * kSide;

void check_weighted_conv(const WeightedConvArgs& args, const Shape& out) {
  const Shape& map = args.map.shape;
  if (map.rank() != 3) fail("weighted_conv3x3", "a map (H, W, C)", map.str());
  const std::int64_t count = args.weights.numel();
  const auto expect = [](const Shape& expected, const Shape& found) {
    if (found != expected) fail("weighted_conv3x3", "shape " + expected.str(), found.str());
  };
  expect({count, map[2], kSide, kSide}, args.weight.shape);
  expect({count}, args.bias.shape);
  if (args.beside) expect({map[0], map[1], count}, args.beside.shape);
  expect({map[0], map[1]}, out);
}

// sum over k of weights[k] * weight[k]: (C, 9)
View summed_kernel(Context& ctx, const WeightedConvArgs& args) {
  const std::int64_t size = args.map.shape[2] * kTaps;
  const View kernel = ctx.workspace.floats({args.map.shape[2], kTaps});
  std::fill_n(kernel.data, size, 0.0F);
  for (std::int64_t k = 0; k < args.weights.numel(); ++k) {
    const float factor = args.weights.data[k];
    const float* const from = args.weight.data + k * size;
    for (std::int64_t i = 0; i < size; ++i) kernel.data[i] += factor * from[i];
  }
  return kernel;
}

// One row of the result gets the nine products of its neighbours (H, W, 9), and `constant`.
void add_taps(ConstView products, std::int64_t y, float constant, float* out) {
  const std::int64_t height = products.shape[0], width = products.shape[1];
  for (std::int64_t x = 0; x < width; ++x) out[x] += constant;
  for (std::int64_t dy = 0; dy < kSide; ++dy) {
    const std::int64_t from = y + dy - 1;
    if (from < 0 || from >= height) continue;
    for (std::int64_t dx = 0; dx < kSide; ++dx) {
      const float* const tap = products[from].data + dy * kSide + dx;
      const std::int64_t begin = std::max<std::int64_t>(0, 1 - dx);
      const std::int64_t end = std::min(width, width + 1 - dx);
      for (std::int64_t x = begin; x < end; ++x) out[x] += tap[(x + dx - 1) * kTaps];
    }
  }
}

}  // namespace

void weighted_conv3x3(Context& ctx, const WeightedConvArgs& args, View out) {
  check_weighted_conv(args, out.shape);
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t height = args.map.shape[0], width = args.map.shape[1];
  const std::int64_t channels = args.map.shape[2], count = args.weights.numel();
  const Workspace::Scope scratch(ctx.workspace);
  const View kernel = summed_kernel(ctx, args);
  const View products = ctx.workspace.floats({height, width, kTaps});
  parallel_for({ctx.num_threads, height, 1, width * channels * kTaps},
               [&](std::int64_t y, std::int64_t, int) {
                 kernels.gemm({.m = width,
                               .n = kTaps,
                               .k = channels,
                               .a = left_rows(kernels, args.map[y].data, channels),
                               .b = right_rows(kernels, kernel.data, kTaps),
                               .c = products[y].data,
                               .c_row_stride = kTaps});
               });
  float constant = 0.0F;
  for (std::int64_t k = 0; k < count; ++k) constant += args.weights.data[k] * args.bias.data[k];
  parallel_for({ctx.num_threads, height, 1, width * (count + kTaps)},
               [&](std::int64_t y, std::int64_t, int) {
                 float* const row = out[y].data;
                 if (args.beside) {
                   kernels.gemm({.m = width,
                                 .n = 1,
                                 .k = count,
                                 .a = left_rows(kernels, args.beside[y].data, count),
                                 .b = right_rows(kernels, args.weights.data, 1),
                                 .c = row,
                                 .c_row_stride = 1,
                                 .accumulate = args.adds});
                 } else if (!args.adds) {
                   std::fill_n(row, width, 0.0F);
                 }
                 add_taps(products, y, constant, row);
               });
}

}  // namespace sam_rlx
