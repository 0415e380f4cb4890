#include "ops/sampling.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

void check_map(const char* name, ConstView map, ConstView positions, std::int64_t width) {
  if (map.shape.rank() != 3 || map.numel() == 0) {
    fail(name, "a map (H, W, C)", map.shape.str());
  }
  if (positions.shape.rank() != 2 || positions.shape[1] != width) {
    fail(name, "coordinates (n, " + std::to_string(width) + ")", positions.shape.str());
  }
  constexpr float kLargest = 1e9F;
  if (!std::all_of(positions.data, positions.data + positions.numel(),
                   [](float x) { return std::abs(x) <= kLargest; })) {
    fail(name, "coordinates of at most 1e9", "larger ones, or NaN");
  }
}

// How much each cell of an axis counts in a bin: the mean of the bin's samples is separable.
struct BinWeights {
  std::int64_t first = 0, end = 0;  // cells that count
};

// weights (bins, size), zeroed here; bounds (bins,).
void bin_weights(float low, float high, std::int64_t size, std::int64_t bins, double* weights,
                 BinWeights* bounds) {
  std::fill_n(weights, bins * size, 0.0);
  const float side = std::max(high - low, 1.0F);
  const float bin = side / static_cast<float>(bins);
  const auto samples = static_cast<std::int64_t>(std::ceil(bin));
  const double step = static_cast<double>(bin) / static_cast<double>(samples);
  const auto border = static_cast<double>(size);
  for (std::int64_t b = 0; b < bins; ++b) {
    double* const row = weights + b * size;
    bounds[b] = {size, 0};
    const double start = static_cast<double>(low) + static_cast<double>(b) * bin;
    // Samples from -1 to the border count: no step outside of it is taken.
    const auto index_of = [&](double position) {
      const double index = std::floor((position - start) / step) - 1.0;
      return static_cast<std::int64_t>(std::clamp(index, 0.0, static_cast<double>(samples)));
    };
    const std::int64_t last = std::min(samples, index_of(border) + 4);
    for (std::int64_t s = index_of(-1.0); s < last; ++s) {
      const double position = start + (static_cast<double>(s) + 0.5) * step;
      if (position < -1.0 || position > border) continue;
      const double clamped = std::clamp(position, 0.0, border - 1.0);
      const auto lower = static_cast<std::int64_t>(clamped);
      const std::int64_t upper = std::min(lower + 1, size - 1);
      const double fraction = clamped - static_cast<double>(lower);
      row[lower] += (1.0 - fraction) / static_cast<double>(samples);
      row[upper] += fraction / static_cast<double>(samples);
      bounds[b].first = std::min(bounds[b].first, lower);
      bounds[b].end = std::max(bounds[b].end, upper + 1);
    }
  }
}

}  // namespace

void roi_align(Context& ctx, ConstView map, ConstView boxes, View out) {
  check_map("roi_align", map, boxes, 4);
  const std::int64_t count = boxes.shape[0], channels = map.shape[2];
  const std::int64_t height = map.shape[0], width = map.shape[1];
  const std::int64_t bins = out.shape.rank() == 4 ? out.shape[1] : 0;
  const Shape expected{count, bins, bins, channels};
  if (bins < 1 || out.shape != expected) {
    fail("roi_align: result", "(n, S, S, C) of " + expected.str(), out.shape.str());
  }
  if (count == 0) return;
  const Workspace::Scope scratch(ctx.workspace);
  double* const rows = ctx.workspace.array<double>(count * bins * height);
  double* const cols = ctx.workspace.array<double>(count * bins * width);
  auto* const row_bounds = ctx.workspace.array<BinWeights>(count * bins);
  auto* const col_bounds = ctx.workspace.array<BinWeights>(count * bins);
  parallel_for(
      {ctx.num_threads, count, 1, bins * (height + width) * kNumberWork},
      [&](std::int64_t i, std::int64_t, int /*thread*/) {
        const float* const box = boxes.data + 4 * i;
        bin_weights(box[1], box[3], height, bins, rows + i * bins * height, row_bounds + i * bins);
        bin_weights(box[0], box[2], width, bins, cols + i * bins * width, col_bounds + i * bins);
      });
  parallel_for({ctx.num_threads, count * bins * bins, 1, 4 * channels * kNumberWork},
               [&](std::int64_t i, std::int64_t, int /*thread*/) {
                 const std::int64_t row = i / bins, col = i / (bins * bins) * bins + i % bins;
                 const BinWeights ys = row_bounds[row], xs = col_bounds[col];
                 float* const to = out.data + i * channels;
                 std::fill_n(to, channels, 0.0F);
                 for (std::int64_t y = ys.first; y < ys.end; ++y) {
                   for (std::int64_t x = xs.first; x < xs.end; ++x) {
                     const auto weight =
                         static_cast<float>(rows[row * height + y] * cols[col * width + x]);
                     const float* const from = map.data + (y * width + x) * channels;
                     for (std::int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
                   }
                 }
               });
}

void sample_points(Context& ctx, ConstView map, ConstView points, View out) {
  check_map("sample_points", map, points, 2);
  const std::int64_t height = map.shape[0], width = map.shape[1], channels = map.shape[2];
  const Shape expected{points.shape[0], channels};
  if (out.shape != expected) fail("sample_points: result", expected.str(), out.shape.str());
  parallel_for({ctx.num_threads, points.shape[0], 8, 4 * channels * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int /*t*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   float* const to = out.data + i * channels;
                   std::fill_n(to, channels, 0.0F);
                   const double x =
                       static_cast<double>(points.data[2 * i]) * static_cast<double>(width);
                   const double y =
                       static_cast<double>(points.data[2 * i + 1]) * static_cast<double>(height);
                   const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
                   for (int corner = 0; corner < 4; ++corner) {
                     const double col = left + corner % 2, row = top + corner / 2;
                     if (col < 0 || row < 0 || col >= static_cast<double>(width) ||
                         row >= static_cast<double>(height)) {
                       continue;
                     }
                     const auto weight = static_cast<float>((1.0 - std::abs(x - 0.5 - col)) *
                                                            (1.0 - std::abs(y - 0.5 - row)));
                     const float* const from = map.data + (static_cast<std::int64_t>(row) * width +
                                                           static_cast<std::int64_t>(col)) *
                                                              channels;
                     for (std::int64_t c = 0; c < channels; ++c) to[c] += weight * from[c];
                   }
                 }
               });
}

}  // namespace sam_rlx
