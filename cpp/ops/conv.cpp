#include "ops/conv.h"

#include <algorithm>

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
  const auto segment = [&](std::int64_t i, std::int64_t y) {
    return x.data + ((i / out_w * patch + y) * width + i % out_w * patch) * channels;
  };
  packed_gemm(ctx, expected.rows(),
              RowSegments<decltype(segment)>{patch, patch * channels, segment}, weight, epilogue,
              out.data);
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
  const auto segment = [&](std::int64_t i, std::int64_t tap) {
    const std::int64_t y = i / out_w % out_h * stride + tap;
    return map.data + (i / (out_w * out_h) * height + y) * row + i % out_w * stride * channels;
  };
  packed_gemm(ctx, expected.rows(),
              RowSegments<decltype(segment)>{kernel, kernel * channels, segment}, weight, epilogue,
              out.data);
}

void conv3x3(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
             View out) {
  if (x.shape.rank() != 4) fail("conv3x3", "a map (B, H, W, C)", x.shape.str());
  const std::int64_t height = x.shape[1], width = x.shape[2], channels = x.shape[3];
  const Shape expected = x.shape.with_last(weight.rows);
  check_conv("conv3x3", ctx, weight, 9 * channels, epilogue, expected, out);
  const auto segment = [&](std::int64_t i, std::int64_t tap) -> const float* {
    const std::int64_t col = i % width + tap % 3 - 1;
    const std::int64_t row = i / width % height + tap / 3 - 1;
    if (col < 0 || col >= width || row < 0 || row >= height) return nullptr;
    return x.data + (i + (tap / 3 - 1) * width + tap % 3 - 1) * channels;
  };
  packed_gemm(ctx, expected.rows(), RowSegments<decltype(segment)>{9, channels, segment}, weight,
              epilogue, out.data);
}

}  // namespace sam_rlx
