#include "ops/pixel_decoder.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// Where position (y, x) of a map stands, in floats.
struct Layout {
  std::int64_t height = 0, width = 0, channels = 0;  // of the whole map
  bool quarters = false;

  std::int64_t at(std::int64_t y, std::int64_t x) const {
    if (!quarters) return (y * width + x) * channels;
    const std::int64_t quarter = y % 2 * 2 + x % 2;
    return ((quarter * (height / 2) + y / 2) * (width / 2) + x / 2) * channels;
  }
};

struct MapPosition {
  std::int64_t row = 0, col = 0;
};

Layout layout_of(const char* name, const Shape& shape) {
  if (shape.rank() == 3) return {shape[0], shape[1], shape[2], false};
  if (shape.rank() != 4 || shape[0] != 4) {
    fail(name, "a map (H, W, C), or in quarters (4, H / 2, W / 2, C)", shape.str());
  }
  return {2 * shape[1], 2 * shape[2], shape[3], true};
}

void check_weight(const char* name, const Context& ctx, const PackedMatrix& weight,
                  std::int64_t inner) {
  if (weight.kernels != &ctx.kernels) {
    fail_internal(std::string(name) + ": weight packed for another table");
  }
  if (weight.cols != inner) {
    fail(name, "weight with " + std::to_string(inner) + " inputs", std::to_string(weight.cols));
  }
}

}  // namespace

UpsampledConv pack_upsampled_conv(const KernelTable& kernels, ConstView weight,
                                  WeightFormat format) {
  if (weight.shape.rank() != 4 || weight.shape[2] != 3 || weight.shape[3] != 3) {
    fail("pack_upsampled_conv", "a weight (out, in, 3, 3)", weight.shape.str());
  }
  const std::int64_t rows = weight.shape[0], channels = weight.shape[1];
  if (channels % kBFloat16Depth != 0) format = WeightFormat::kFloat32;
  UpsampledConv result;
  std::vector<double> sums(static_cast<std::size_t>(4 * channels));
  for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
    const std::int64_t dy = quarter / 2, dx = quarter % 2;
    Tensor folded({rows, 4 * channels});
    for (std::int64_t r = 0; r < rows; ++r) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t tap = 0; tap < 9; ++tap) {
          // Row 2 y + dy + tap / 3 - 1 of the enlarged map is y + dy - 1 + row of the small one.
          const std::int64_t row = (dy + tap / 3 + 1) / 2 - dy, col = (dx + tap % 3 + 1) / 2 - dx;
          sums[static_cast<std::size_t>((2 * row + col) * channels + c)] +=
              static_cast<double>(weight.data[(r * channels + c) * 9 + tap]);
        }
      }
      std::transform(sums.begin(), sums.end(), folded.data() + r * 4 * channels,
                     [](double sum) { return static_cast<float>(sum); });
    }
    result.quarters[static_cast<std::size_t>(quarter)] = pack_matrix(kernels, folded, format);
  }
  return result;
}

void conv3x3_upsampled(Context& ctx, ConstView x, const UpsampledConv& weight, ConstView residual,
                       View out) {
  const Layout in = layout_of("conv3x3_upsampled", x.shape);
  check_weight("conv3x3_upsampled", ctx, weight.quarters[0], 4 * in.channels);
  const std::int64_t positions = in.height * in.width, rows = weight.quarters[0].rows;
  const Shape expected{4, in.height, in.width, rows};
  if (out.shape != expected) fail("conv3x3_upsampled: result", expected.str(), out.shape.str());
  if (residual.shape != expected) {
    fail("conv3x3_upsampled: residual", expected.str(), residual.shape.str());
  }
  for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
    const auto position = [&](std::int64_t i) { return MapPosition{i / in.width, i % in.width}; };
    const auto segment = [&](MapPosition p, std::int64_t tap) -> const float* {
      const std::int64_t row = p.row + tap / 2 - 1 + quarter / 2;
      const std::int64_t col = p.col + tap % 2 - 1 + quarter % 2;
      if (row < 0 || row >= in.height || col < 0 || col >= in.width) return nullptr;
      return x.data + in.at(row, col);
    };
    packed_gemm(ctx, positions, RowSegments{4, in.channels, position, segment},
                weight.quarters[static_cast<std::size_t>(quarter)], {.residual = residual[quarter]},
                out[quarter].data);
  }
}

void conv3x3_to_quarters(Context& ctx, ConstView x, const PackedMatrix& weight, const float* bias,
                         View out) {
  if (x.shape.rank() != 3 || x.shape[0] % 2 != 0 || x.shape[1] % 2 != 0) {
    fail("conv3x3_to_quarters", "a map (H, W, C) with even sides", x.shape.str());
  }
  const std::int64_t height = x.shape[0], width = x.shape[1], channels = x.shape[2];
  check_weight("conv3x3_to_quarters", ctx, weight, 9 * channels);
  const Shape expected{4, height / 2, width / 2, weight.rows};
  if (out.shape != expected) fail("conv3x3_to_quarters: result", expected.str(), out.shape.str());
  const std::int64_t half = width / 2, quarter_size = height / 2 * half;
  const auto position = [&](std::int64_t i) {
    const std::int64_t quarter = i / quarter_size, in_quarter = i % quarter_size;
    return MapPosition{in_quarter / half * 2 + quarter / 2, in_quarter % half * 2 + quarter % 2};
  };
  const auto segment = [&](MapPosition p, std::int64_t tap) -> const float* {
    const std::int64_t row = p.row + tap / 3 - 1, col = p.col + tap % 3 - 1;
    if (row < 0 || row >= height || col < 0 || col >= width) return nullptr;
    return x.data + (row * width + col) * channels;
  };
  packed_gemm(ctx, height * width, RowSegments{9, channels, position, segment}, weight,
              {.bias = bias}, out.data);
}

namespace {

// Some positions of a row of one quarter: their channels are normalized into a panel of nr columns
// after the other, multiplied, and spread over the results.
struct MapProduct {
  const KernelTable& kernels;
  const MapProductArgs& args;
  View out;
  std::int64_t channels, count, nr;

  std::int64_t scratch_floats(std::int64_t positions) const {
    return nr * channels * (1 + (positions + nr - 1) / nr) + count * positions;
  }

  void run(std::int64_t quarter, std::int64_t y, std::int64_t first, std::int64_t positions,
           float* scratch) const {
    const std::int64_t height = args.map.shape[1], width = args.map.shape[2];
    const float* const map = args.map.data + ((quarter * height + y) * width + first) * channels;
    float* const rows = scratch;
    float* const panels = rows + nr * channels;
    float* const products = panels + (positions + nr - 1) / nr * nr * channels;
    for (std::int64_t p = 0; p < positions; p += nr) {
      const float* pointers[kMaxNr] = {};
      for (std::int64_t i = 0; i < std::min(nr, positions - p); ++i) {
        normalise(map + (p + i) * channels, rows + i * channels);
        pointers[i] = rows + i * channels;
      }
      kernels.pack_b_rows(pointers, channels, 1.0F, panels + p * channels);
    }
    kernels.gemm({.m = count,
                  .n = positions,
                  .k = channels,
                  .a = left_rows(kernels, args.vectors.data, channels),
                  .b = right_panels(kernels, panels, channels),
                  .c = products,
                  .c_row_stride = positions,
                  .row_bias = args.bias.data});
    for (std::int64_t k = 0; k < count; ++k) {
      float* const to = out.data + ((k * 2 * height + 2 * y + quarter / 2) * width + first) * 2;
      for (std::int64_t i = 0; i < positions; ++i) {
        to[2 * i + quarter % 2] = products[k * positions + i];
      }
    }
  }

 private:
  static constexpr std::int64_t kMaxNr = 64;

  void normalise(const float* x, float* to) const {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float value = args.scale.data[c] * x[c] + args.shift.data[c];
      to[c] = value < 0.0F ? 0.0F : value;
    }
  }
};

}  // namespace

void map_products(Context& ctx, const MapProductArgs& args, View out) {
  const Shape& map = args.map.shape;
  const std::int64_t channels = map.rank() == 4 && map[0] == 4 ? map[3] : 0;
  const std::int64_t count = args.vectors.shape.rank() == 2 ? args.vectors.shape[0] : -1;
  if (channels < 1 || args.scale.numel() != channels || args.shift.numel() != channels ||
      count < 0 || args.vectors.shape[1] != channels || args.bias.numel() != count) {
    fail("map_products", "a map in quarters, and vectors and norms of its channels",
         map.str() + " and " + args.vectors.shape.str());
  }
  const Shape expected{count, 2 * map[1], 2 * map[2]};
  if (out.shape != expected) fail("map_products: result", expected.str(), out.shape.str());
  if (out.numel() == 0) return;
  constexpr std::int64_t kPositions = 96;  // docs/develop/optimizations.md: work-items
  const std::int64_t width = map[2], positions = std::min(kPositions, width);
  const std::int64_t parts = (width + positions - 1) / positions;
  const MapProduct product{ctx.kernels, args, out, channels, count, ctx.kernels.gemm_nr};
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t size = product.scratch_floats(positions);
  float* const buffers = ctx.workspace.array<float>(std::max(1, ctx.num_threads) * size);
  parallel_for({ctx.num_threads, 4 * map[1] * parts, 1, positions * channels * count},
               [&](std::int64_t i, std::int64_t, int thread) {
                 const std::int64_t row = i / parts, first = i % parts * positions;
                 product.run(row / map[1], row % map[1], first, std::min(positions, width - first),
                             buffers + thread * size);
               });
}

}  // namespace sam_rlx
