#include "ops/conv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

void check_conv(const char* name, const Context& ctx, const PackedMatrix& weight,
                std::int64_t inner, const Epilogue& epilogue, const Shape& expected, View out) {
  if (weight.kernels != &ctx.kernels) {
    fail_internal(std::string(name) + ": weight packed for another table");
  }
  if (weight.cols != inner) {
    fail(name, "weight with " + std::to_string(inner) + " inputs", std::to_string(weight.cols));
  }
  if (out.shape != expected) fail(std::string(name) + ": result", expected.str(), out.shape.str());
  if (epilogue.residual && epilogue.residual.numel() != out.numel()) {
    fail(std::string(name) + ": residual", out.shape.str(), epilogue.residual.shape.str());
  }
}

// x (B, H, W, C) with `padding` zeros on all sides.
View padded(Context& ctx, ConstView x, std::int64_t padding) {
  const std::int64_t height = x.shape[1], row = x.shape[2] * x.shape[3];
  const std::int64_t border = padding * x.shape[3];
  const View out = ctx.workspace.floats(
      {x.shape[0], height + 2 * padding, x.shape[2] + 2 * padding, x.shape[3]});
  const std::int64_t out_row = row + 2 * border, out_height = out.shape[1];
  parallel_for(ctx.num_threads, x.shape[0] * out_height, 16,
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

PackedMatrix pack_conv(const KernelTable& kernels, ConstView weight) {
  if (weight.shape.rank() != 4) {
    fail("pack_conv", "a weight (out, in, kh, kw)", weight.shape.str());
  }
  const std::int64_t rows = weight.shape[0], channels = weight.shape[1];
  const std::int64_t places = weight.shape[2] * weight.shape[3];
  Tensor reordered({rows, places * channels});
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const from = weight.data + r * places * channels;
    float* const to = reordered.data() + r * places * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < places; ++p) to[p * channels + c] = from[c * places + p];
    }
  }
  return pack_matrix(kernels, reordered.view());
}

void conv_patch(Context& ctx, ConstView x, std::int64_t patch, const PackedMatrix& weight,
                const Epilogue& epilogue, View out) {
  if (x.shape.rank() != 4 || patch < 1 || x.shape[1] % patch != 0 || x.shape[2] % patch != 0) {
    fail("conv_patch", "a map (B, H, W, C) that patches of " + std::to_string(patch) + " divide",
         x.shape.str());
  }
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  const std::int64_t out_w = width / patch;
  const Shape expected{x.shape[0], height / patch, out_w, weight.rows};
  check_conv("conv_patch", ctx, weight, patch * patch * channels, epilogue, expected, out);
  // Output row i is place (i / out_w, i % out_w) of the maps put below each other.
  const auto corner = [&](std::int64_t i) {
    return x.data + (i / out_w * width + i % out_w) * patch * channels;
  };
  const auto line = [=](const float* at, std::int64_t y) { return at + y * width * channels; };
  packed_gemm(ctx, expected.rows(), RowSegments{patch, patch * channels, corner, line}, weight,
              epilogue, out.data);
}

void conv_strided(Context& ctx, ConstView x, const ConvWindow& window, const PackedMatrix& weight,
                  const Epilogue& epilogue, View out) {
  const std::int64_t kernel = window.kernel, stride = window.stride;
  if (x.shape.rank() != 4 || kernel < 1 || stride < 1 || window.padding < 0 ||
      std::min(x.shape[1], x.shape[2]) + 2 * window.padding < kernel) {
    fail("conv_strided", "a map (B, H, W, C) that the kernel fits in", x.shape.str());
  }
  const std::int64_t channels = x.shape[3];
  const Shape expected{x.shape[0], window.out_size(x.shape[1]), window.out_size(x.shape[2]),
                       weight.rows};
  check_conv("conv_strided", ctx, weight, kernel * kernel * channels, epilogue, expected, out);
  const Workspace::Scope scratch(ctx.workspace);
  const ConstView map = window.padding > 0 ? padded(ctx, x, window.padding) : x;
  const std::int64_t height = map.shape[1], row = map.shape[2] * channels;
  const std::int64_t out_h = expected[1], out_w = expected[2];
  const auto corner = [&](std::int64_t i) {
    const std::int64_t y = i / out_w % out_h * stride, b = i / (out_w * out_h);
    return map.data + (b * height + y) * row + i % out_w * stride * channels;
  };
  const auto line = [=](const float* at, std::int64_t tap) { return at + tap * row; };
  packed_gemm(ctx, expected.rows(), RowSegments{kernel, kernel * channels, corner, line}, weight,
              epilogue, out.data);
}

void conv3x3(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
             View out) {
  if (x.shape.rank() != 4) fail("conv3x3", "a map (B, H, W, C)", x.shape.str());
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  const Shape expected = x.shape.with_last(weight.rows);
  check_conv("conv3x3", ctx, weight, 9 * channels, epilogue, expected, out);
  struct Place {
    std::int64_t row, col;
    const float* at;
  };
  const auto place = [&](std::int64_t i) {
    return Place{i / width % height, i % width, x.data + i * channels};
  };
  const auto segment = [=](const Place& p, std::int64_t tap) -> const float* {
    const std::int64_t dy = tap / 3 - 1, dx = tap % 3 - 1;
    const std::int64_t row = p.row + dy, col = p.col + dx;
    if (col < 0 || col >= width || row < 0 || row >= height) return nullptr;
    return p.at + (dy * width + dx) * channels;
  };
  packed_gemm(ctx, expected.rows(), RowSegments{9, channels, place, segment}, weight, epilogue,
              out.data);
}

void conv3x3_stride2(Context& ctx, ConstView x, const PackedMatrix& weight,
                     const Epilogue& epilogue, View out) {
  if (x.shape.rank() != 4) fail("conv3x3_stride2", "a map (B, H, W, C)", x.shape.str());
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  const std::int64_t out_h = (height + 1) / 2, out_w = (width + 1) / 2;
  const Shape expected{x.shape[0], out_h, out_w, weight.rows};
  check_conv("conv3x3_stride2", ctx, weight, 9 * channels, epilogue, expected, out);
  // With a border of zeros, each of the three rows under the kernel is one run of numbers.
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t row = (width + 2) * channels, plane = (height + 2) * row;
  float* const padded = ctx.workspace.array<float>(x.shape[0] * plane);
  parallel_for(ctx.num_threads, x.shape[0] * (height + 2), 16,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t y = i % (height + 2) - 1;
                   float* const to = padded + i * row;
                   if (y < 0 || y >= height) {
                     std::fill_n(to, row, 0.0F);
                     continue;
                   }
                   std::fill_n(to, channels, 0.0F);
                   std::memcpy(to + channels,
                               x.data + (i / (height + 2) * height + y) * width * channels,
                               static_cast<std::size_t>(width * channels) * sizeof(float));
                   std::fill_n(to + row - channels, channels, 0.0F);
                 }
               });
  const auto corner = [&](std::int64_t i) {
    const std::int64_t y = i / out_w % out_h, b = i / (out_w * out_h);
    return padded + b * plane + 2 * y * row + i % out_w * 2 * channels;
  };
  const auto line = [=](const float* at, std::int64_t tap) { return at + tap * row; };
  packed_gemm(ctx, expected.rows(), RowSegments{3, 3 * channels, corner, line}, weight, epilogue,
              out.data);
}

void depthwise_conv(Context& ctx, ConstView x, ConstView weight, ConstView bias, View out) {
  constexpr std::int64_t kMaxSize = 15;
  if (x.shape.rank() != 4) fail("depthwise_conv", "a map (B, H, W, C)", x.shape.str());
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  std::int64_t size = 1;
  while (size < kMaxSize && size * size * channels < weight.numel()) size += 2;
  const Shape expected{size * size, channels};
  if (weight.shape != expected || bias.numel() != channels) {
    fail("depthwise_conv", "weight and bias of " + std::to_string(channels) + " channels",
         weight.shape.str() + " and " + bias.shape.str());
  }
  if (out.shape != x.shape) fail("depthwise_conv: result", x.shape.str(), out.shape.str());
  const std::int64_t row = width * channels;
  parallel_for(ctx.num_threads, x.shape[0] * height, 1, [&](std::int64_t i, std::int64_t, int) {
    std::array<const float*, kMaxSize> rows{};
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int64_t y = i % height + k - size / 2;
      const bool inside = y >= 0 && y < height;
      rows[static_cast<std::size_t>(k)] = inside ? x.data + (i + k - size / 2) * row : nullptr;
    }
    ctx.kernels.depthwise_row({.rows = rows.data(),
                               .size = size,
                               .width = width,
                               .channels = channels,
                               .weight = weight.data,
                               .bias = bias.data,
                               .out = out.data + i * row});
  });
}

}  // namespace sam_rlx
