#pragma once

#include "core/context.h"

namespace sam_rlx {

// Resizes without antialias, as torch.nn.functional.interpolate with align_corners=False: positions
// are half-pixel centres, weights are float32, the borders repeat.

// Where the first outputs of a linearly resized axis read: out[i] is
// in[lower[i]] * lower_weight[i] + in[upper[i]] * upper_weight[i].
struct LinearTaps {
  std::int64_t count = 0;
  const std::int32_t* lower = nullptr;
  const std::int32_t* upper = nullptr;
  const float* lower_weight = nullptr;
  const float* upper_weight = nullptr;

  // Of the outputs begin, begin + 1, ... before end.
  LinearTaps part(std::int64_t begin, std::int64_t end) const {
    return {end - begin, lower + begin, upper + begin, lower_weight + begin, upper_weight + begin};
  }
};

// Taps of the first `count` positions of an axis resized from in_size to out_size. They live in the
// enclosing scope of the workspace.
LinearTaps linear_taps(Workspace& workspace, std::int64_t in_size, std::int64_t out_size,
                       std::int64_t count);

// out[i] for every tap.
void resample_row(const float* in, const LinearTaps& taps, float* out);
// out = a * a_weight + b * b_weight.
void blend_rows(const float* a, float a_weight, const float* b, float b_weight, std::int64_t count,
                float* out);

// Bilinear: planes (P, H, W) -> out (P, H2, W2).
void resize_bilinear(Context& ctx, ConstView planes, View out);
// Bicubic (a = -0.75), channels last: map (H, W, C) -> out (H2, W2, C).
void resize_bicubic_hwc(Context& ctx, ConstView map, View out);
// Nearest, twice as many positions along both sides: map (H, W, C) -> out (2H, 2W, C).
void upsample_nearest2x_hwc(Context& ctx, ConstView map, View out);
// Linear along the first axis: table (L, C) -> out (L2, C).
void resize_linear_rows(Context& ctx, ConstView table, View out);

}  // namespace sam_rlx
