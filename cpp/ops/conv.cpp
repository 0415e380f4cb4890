#include "ops/conv.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/depthwise.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// The shape of the result.
Shape check_conv(const Context& ctx, ConstView x, const ConvWindow& window,
                 const PackedMatrix& weight, const Epilogue& epilogue, View out) {
  if (x.shape.rank() != 4 || window.kernel < 1 || window.stride < 1 || window.padding < 0 ||
      std::min(x.shape[1], x.shape[2]) + 2 * window.padding < window.kernel) {
    fail("conv2d", "a map (B, H, W, C) that the kernel fits in", x.shape.str());
  }
  if (weight.kernels != &ctx.kernels) fail_internal("conv2d: weight packed for another table");
  const std::int64_t inner = window.kernel * window.kernel * x.shape[3];
  if (weight.cols != inner) {
    fail("conv2d", "weight with " + std::to_string(inner) + " inputs", std::to_string(weight.cols));
  }
  const Shape expected{x.shape[0], window.out_size(x.shape[1]), window.out_size(x.shape[2]),
                       weight.rows};
  if (out.shape != expected) fail("conv2d: result", expected.str(), out.shape.str());
  if (epilogue.residual && epilogue.residual.numel() != out.numel()) {
    fail("conv2d: residual", out.shape.str(), epilogue.residual.shape.str());
  }
  return expected;
}

// x (B, H, W, C) with `padding` zeros on all sides.
View padded(Context& ctx, ConstView x, std::int64_t padding) {
  const std::int64_t height = x.shape[1], row = x.shape[2] * x.shape[3];
  const std::int64_t border = padding * x.shape[3];
  const View out = ctx.workspace.floats(
      {x.shape[0], height + 2 * padding, x.shape[2] + 2 * padding, x.shape[3]});
  const std::int64_t out_row = row + 2 * border, out_height = out.shape[1];
  parallel_for({ctx.num_threads, x.shape[0] * out_height, 16, out_row * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t y = i % out_height - padding;
                   float* const to = out.data + i * out_row;
                   if (y < 0 || y >= height) {
                     std::fill_n(to, out_row, 0.0F);
                     continue;
                   }
                   std::fill_n(to, border, 0.0F);
                   std::copy_n(x.data + (i / out_height * height + y) * row, row, to + border);
                   std::fill_n(to + border + row, border, 0.0F);
                 }
               });
  return out;
}

}  // namespace

PackedMatrix pack_conv(const KernelTable& kernels, ConstView weight, WeightFormat format) {
  if (weight.shape.rank() != 4) {
    fail("pack_conv", "a weight (out, in, kh, kw)", weight.shape.str());
  }
  const std::int64_t rows = weight.shape[0], channels = weight.shape[1];
  const std::int64_t positions = weight.shape[2] * weight.shape[3];
  Tensor reordered({rows, positions * channels});
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const from = weight.data + r * positions * channels;
    float* const to = reordered.data() + r * positions * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < positions; ++p) to[p * channels + c] = from[c * positions + p];
    }
  }
  const bool whole = positions == 1 || channels % kBFloat16Depth == 0;
  return pack_matrix(kernels, reordered.view(), whole ? format : WeightFormat::kFloat32);
}

namespace {

// 3x3, stride 1, padding 1: the nine positions under the kernel are read where they are.
void conv3x3(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
             float* out) {
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  struct Position {
    std::int64_t row, col;
    const float* at;
  };
  const auto position = [&](std::int64_t i) {
    return Position{i / width % height, i % width, x.data + i * channels};
  };
  const auto segment = [=](const Position& p, std::int64_t tap) -> const float* {
    const std::int64_t dy = tap / 3 - 1, dx = tap % 3 - 1;
    const std::int64_t row = p.row + dy, col = p.col + dx;
    if (col < 0 || col >= width || row < 0 || row >= height) return nullptr;
    return p.at + (dy * width + dx) * channels;
  };
  packed_gemm(ctx, x.shape.rows(), RowSegments{9, channels, position, segment}, weight, epilogue,
              out);
}

}  // namespace

void conv2d(Context& ctx, ConstView x, const ConvWindow& window, const PackedMatrix& weight,
            const Epilogue& epilogue, View out) {
  const Shape result = check_conv(ctx, x, window, weight, epilogue, out);
  if (window == kConv3x3) {
    conv3x3(ctx, x, weight, epilogue, out.data);
    return;
  }
  // With the zeros around the map, each row under the kernel is one run of numbers.
  const Workspace::Scope scratch(ctx.workspace);
  const ConstView map = window.padding > 0 ? padded(ctx, x, window.padding) : x;
  const std::int64_t channels = map.shape[3], height = map.shape[1], row = map.shape[2] * channels;
  const std::int64_t out_h = result[1], out_w = result[2], stride = window.stride;
  const auto corner = [&](std::int64_t i) {
    const std::int64_t y = i / out_w % out_h * stride, b = i / (out_w * out_h);
    return map.data + (b * height + y) * row + i % out_w * stride * channels;
  };
  const auto line = [=](const float* at, std::int64_t tap) { return at + tap * row; };
  packed_gemm(ctx, result.rows(),
              RowSegments{window.kernel, window.kernel * channels, corner, line}, weight, epilogue,
              out.data);
}

std::int64_t depthwise_size(const char* where, const DepthwiseArgs& args, std::int64_t channels) {
  std::int64_t size = 1;
  while (size < kMaxDepthwiseSize && size * size * channels < args.weight.numel()) size += 2;
  if (args.weight.shape != Shape{size * size, channels} || args.bias.numel() != channels) {
    fail(where, "weight and bias of " + std::to_string(channels) + " channels",
         args.weight.shape.str() + " and " + args.bias.shape.str());
  }
  if (args.stride < 1) {
    fail(where, "a stride of at least 1", std::to_string(args.stride));
  }
  return size;
}

void depthwise_conv(Context& ctx, ConstView x, const DepthwiseArgs& args, View out) {
  if (x.shape.rank() != 4) fail("depthwise_conv", "a map (B, H, W, C)", x.shape.str());
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  const std::int64_t size = depthwise_size("depthwise_conv", args, channels);
  const std::int64_t stride = args.stride;
  const ConvWindow window{size, stride, size / 2};
  const Shape result{x.shape[0], window.out_size(height), window.out_size(width), channels};
  if (out.shape != result) fail("depthwise_conv: result", result.str(), out.shape.str());
  const std::int64_t row = width * channels, out_row = result[2] * channels;
  parallel_for({ctx.num_threads, result[0] * result[1], 1, out_row * size * size},
               [&](std::int64_t i, std::int64_t, int) {
                 std::array<const float*, kMaxDepthwiseSize> rows{};
                 const std::int64_t map = i / result[1] * height;
                 for (std::int64_t k = 0; k < size; ++k) {
                   const std::int64_t y = i % result[1] * stride + k - size / 2;
                   const bool inside = y >= 0 && y < height;
                   rows[static_cast<std::size_t>(k)] = inside ? x.data + (map + y) * row : nullptr;
                 }
                 const View to{out.data + i * out_row, Shape{out_row}};
                 ctx.kernels.depthwise_row({.rows = rows.data(),
                                            .size = size,
                                            .width = width,
                                            .channels = channels,
                                            .weight = args.weight.data,
                                            .bias = args.bias.data,
                                            .out = to.data,
                                            .stride = stride});
                 activate_row_(ctx.kernels, args.activation, to);
               });
}

}  // namespace sam_rlx
