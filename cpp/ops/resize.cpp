#include "ops/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

// Rows of one work item. A constant, so that results do not depend on the number of threads.
constexpr std::int64_t kRowGrain = 16;  // docs/develop/optimizations.md: work-items

void check(const char* where, ConstView in, ConstView out, int kept_axis) {
  const int rank = in.shape.rank();
  bool ok = out.shape.rank() == rank && out.shape[kept_axis] == in.shape[kept_axis];
  for (int axis = 0; ok && axis < rank; ++axis) {
    ok = axis == kept_axis || (in.shape[axis] > 0 && out.shape[axis] > 0);
  }
  if (!ok) {
    fail(where, "two non-empty maps that differ in the resized sides only",
         in.shape.str() + " and " + out.shape.str());
  }
}

float source_scale(std::int64_t in_size, std::int64_t out_size) {
  return static_cast<float>(in_size) / static_cast<float>(out_size);
}

// Weights of the four neighbours of a position `t` behind the second of them (Keys, a = -0.75).
std::array<float, 4> cubic_weights(float t) {
  constexpr float kA = -0.75F;
  const auto near = [](float x) { return ((kA + 2.0F) * x - (kA + 3.0F)) * x * x + 1.0F; };
  const auto far = [](float x) { return ((kA * x - 5.0F * kA) * x + 8.0F * kA) * x - 4.0F * kA; };
  return {far(t + 1.0F), near(t), near(1.0F - t), far(2.0F - t)};
}

struct CubicTaps {
  std::array<std::int64_t, 4> index;
  std::array<float, 4> weight;
};

CubicTaps* cubic_taps(Workspace& workspace, std::int64_t in_size, std::int64_t out_size) {
  CubicTaps* const taps = workspace.array<CubicTaps>(out_size);
  const float scale = source_scale(in_size, out_size);
  for (std::int64_t i = 0; i < out_size; ++i) {
    const float source =
        in_size == out_size ? static_cast<float>(i) : scale * (static_cast<float>(i) + 0.5F) - 0.5F;
    const float base = std::floor(source);
    taps[i].weight = cubic_weights(source - base);
    for (std::size_t k = 0; k < 4; ++k) {
      const std::int64_t position =
          static_cast<std::int64_t>(base) + static_cast<std::int64_t>(k) - 1;
      taps[i].index[k] = std::clamp<std::int64_t>(position, 0, in_size - 1);
    }
  }
  return taps;
}

// One output pixel of resize_bicubic_hwc.
void cubic_pixel(ConstView map, const CubicTaps& y, const CubicTaps& x, float* out) {
  const std::int64_t channels = map.shape[2];
  const std::int64_t row_stride = map.shape[1] * channels;
  for (std::size_t k = 0; k < 4; ++k) {
    const float* const row = map.data + y.index[k] * row_stride;
    const float* const p0 = row + x.index[0] * channels;
    const float* const p1 = row + x.index[1] * channels;
    const float* const p2 = row + x.index[2] * channels;
    const float* const p3 = row + x.index[3] * channels;
    const float weight = y.weight[k];
    const float* const w = x.weight.data();
    for (std::int64_t c = 0; c < channels; ++c) {
      const float sum = p0[c] * w[0] + p1[c] * w[1] + p2[c] * w[2] + p3[c] * w[3];
      out[c] = k == 0 ? sum * weight : out[c] + sum * weight;
    }
  }
}

}  // namespace

LinearTaps linear_taps(Workspace& workspace, std::int64_t in_size, std::int64_t out_size,
                       std::int64_t count) {
  auto* const lower = workspace.array<std::int32_t>(count);
  auto* const upper = workspace.array<std::int32_t>(count);
  auto* const lower_weight = workspace.array<float>(count);
  auto* const upper_weight = workspace.array<float>(count);
  const float scale = source_scale(in_size, out_size);
  const std::int32_t last = static_cast<std::int32_t>(in_size - 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const float source = in_size == out_size
                             ? static_cast<float>(i)
                             : std::max(scale * (static_cast<float>(i) + 0.5F) - 0.5F, 0.0F);
    lower[i] = std::min(static_cast<std::int32_t>(source), last);
    upper[i] = std::min(lower[i] + 1, last);
    upper_weight[i] = std::min(source - static_cast<float>(lower[i]), 1.0F);
    lower_weight[i] = 1.0F - upper_weight[i];
  }
  return {count, lower, upper, lower_weight, upper_weight};
}

void resample_row(const float* in, const LinearTaps& taps, float* out) {
  for (std::int64_t i = 0; i < taps.count; ++i) {
    out[i] = in[taps.lower[i]] * taps.lower_weight[i] + in[taps.upper[i]] * taps.upper_weight[i];
  }
}

void blend_rows(const float* a, float a_weight, const float* b, float b_weight, std::int64_t count,
                float* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] * a_weight + b[i] * b_weight;
}

void resize_bilinear(Context& ctx, ConstView planes, View out) {
  check("resize_bilinear", planes, out, 0);
  const std::int64_t height = out.shape[1], width = out.shape[2];
  const Workspace::Scope scratch(ctx.workspace);
  const LinearTaps y_taps = linear_taps(ctx.workspace, planes.shape[1], height, height);
  const LinearTaps x_taps = linear_taps(ctx.workspace, planes.shape[2], width, width);
  float* const rows = ctx.workspace.array<float>(2 * width * std::max(ctx.num_threads, 1));
  const std::int64_t blocks = (height + kRowGrain - 1) / kRowGrain;

  parallel_for({ctx.num_threads, planes.shape[0] * blocks, 1, 2 * kRowGrain * width * kNumberWork},
               [&](std::int64_t begin, std::int64_t /*end*/, int thread) {
                 const ConstView plane = planes[begin / blocks];
                 float* const target = out[begin / blocks].data;
                 float* const cache = rows + 2 * width * thread;
                 std::array<std::int32_t, 2> held{-1, -1};
                 // Neighbouring rows differ in their last bit, so two slots hold what an output
                 // needs.
                 const auto resampled = [&](std::int32_t y) {
                   float* const slot = cache + (y % 2) * width;
                   if (std::exchange(held[static_cast<std::size_t>(y % 2)], y) != y) {
                     resample_row(plane.data + y * plane.shape[1], x_taps, slot);
                   }
                   return slot;
                 };
                 const std::int64_t first = begin % blocks * kRowGrain;
                 for (std::int64_t y = first; y < std::min(first + kRowGrain, height); ++y) {
                   const float* const a = resampled(y_taps.lower[y]);
                   const float* const b = resampled(y_taps.upper[y]);
                   blend_rows(a, y_taps.lower_weight[y], b, y_taps.upper_weight[y], width,
                              target + y * width);
                 }
               });
}

void resize_bicubic_hwc(Context& ctx, ConstView map, View out) {
  check("resize_bicubic_hwc", map, out, 2);
  const std::int64_t width = out.shape[1];
  const Workspace::Scope scratch(ctx.workspace);
  const CubicTaps* const y_taps = cubic_taps(ctx.workspace, map.shape[0], out.shape[0]);
  const CubicTaps* const x_taps = cubic_taps(ctx.workspace, map.shape[1], width);

  parallel_for({ctx.num_threads, out.shape[0] * width, kRowGrain, 2 * out.shape[2] * kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   cubic_pixel(map, y_taps[i / width], x_taps[i % width],
                               out.data + i * out.shape[2]);
                 }
               });
}

void upsample_nearest2x_hwc(Context& ctx, ConstView map, View out) {
  check("upsample_nearest2x_hwc", map, out, 2);
  const std::int64_t width = map.shape[1], channels = map.shape[2];
  const Shape expected{2 * map.shape[0], 2 * width, channels};
  if (out.shape != expected) fail("upsample_nearest2x_hwc", expected.str(), out.shape.str());
  parallel_for({ctx.num_threads, expected[0], 1, 2 * width * channels * kNumberWork},
               [&](std::int64_t y, std::int64_t, int) {
                 const float* const row = map.data + y / 2 * width * channels;
                 float* to = out.data + y * 2 * width * channels;
                 for (std::int64_t x = 0; x < 2 * width; ++x, to += channels) {
                   std::copy_n(row + x / 2 * channels, channels, to);
                 }
               });
}

void resize_linear_rows(Context& ctx, ConstView table, View out) {
  check("resize_linear_rows", table, out, 1);
  const std::int64_t channels = table.shape[1];
  const Workspace::Scope scratch(ctx.workspace);
  const LinearTaps taps = linear_taps(ctx.workspace, table.shape[0], out.shape[0], out.shape[0]);
  for (std::int64_t i = 0; i < taps.count; ++i) {
    blend_rows(table.data + taps.lower[i] * channels, taps.lower_weight[i],
               table.data + taps.upper[i] * channels, taps.upper_weight[i], channels,
               out.data + i * channels);
  }
}

}  // namespace sam_rlx
