#pragma once

#include "core/context.h"
#include "masks/rle.h"

namespace sam_rlx {

// The way that mask logits take from the decoder to the image: bilinear to a square, cropped to
// the part that is image, bilinear to the image's size (SAM); or bilinear at once (SAM 2,
// SAM 3). The two steps are never fused into one: that changes masks at their borders.
struct MaskGeometry {
  std::int64_t low_height = 0, low_width = 0;      // of the decoder
  std::int64_t side = 0;                           // of the square; 0: one step only
  std::int64_t input_height = 0, input_width = 0;  // image in the square; unused with one step
  std::int64_t height = 0, width = 0;              // of the result
};

// low_res (K, low_height, low_width) -> logits out (K, height, width). The square is never built:
// rows stream through the two steps.
void postprocess_masks(Context& ctx, ConstView low_res, const MaskGeometry& geometry, View out);

// The same, compared: out (K, height, width) bytes are 1 where the logit is above the threshold.
void binarize_masks(Context& ctx, ConstView low_res, const MaskGeometry& geometry, float threshold,
                    std::uint8_t* out);

// What is left of an upscaled mask when its logits are not kept.
struct MaskSummary {
  Rle rle;                      // of logit > threshold, in the frame
  PixelBox box;                 // without the frame's offset
  std::int64_t count_high = 0;  // logits above high
  std::int64_t count_low = 0;   // logits above low
};

struct SummaryArgs {
  float threshold = 0.0F;
  float high = 0.0F, low = 0.0F;  // thresholds of the stability score
  MaskFrame frame;
};

// One pass per mask, no logits or pixels stored. Each of `low_res` points to the logits
// (low_height, low_width) of one mask; out has as many entries.
void summarize_masks(Context& ctx, const std::vector<const float*>& low_res,
                     const MaskGeometry& geometry, const SummaryArgs& args, MaskSummary* out);

// IoU of the masks at the higher and at the lower threshold, in float32 as upstream; NaN if both
// are empty.
float stability_score(std::int64_t count_high, std::int64_t count_low);

// Numbers above the threshold.
std::int64_t count_above(const float* x, std::int64_t count, float threshold);

}  // namespace sam_rlx
