#pragma once

#include "core/tensor.h"

namespace sam_rlx {

// Gives holes of a mask, 8-connected positions of (H, W) logits that are not above 0, of at most
// `max_area` positions the logit 0.1. Upstream: sam2/utils/misc.py, fill_holes_in_mask_scores,
// whose components come from a CUDA kernel.
void fill_holes_(View logits, std::int64_t max_area);

// Gives holes as fill_holes_ does the logit 0.1, and then islands, 8-connected positions above 0 of
// at most `max_area` positions and half of all such positions, the logit -0.1. Upstream:
// sam3/model/sam3_tracker_utils.py, fill_holes_in_mask_scores.
void remove_small_components_(View logits, std::int64_t max_area);

// 8-connected parts of logits at most so large, in positions of the low-resolution mask. 0: none.
struct SmallRegions {
  double max_hole_area = 0.0;      // not above the threshold: get 10 more than it
  double max_sprinkle_area = 0.0;  // above the threshold: get 10 less than it
  float mask_threshold = 0.0F;

  bool any() const { return max_hole_area > 0.0 || max_sprinkle_area > 0.0; }
};

// Changes both kinds, as they are before either is changed, in each mask of (K, H, W). Upstream:
// sam2/utils/transforms.py, SAM2Transforms.postprocess_masks, with the same kernel.
void remove_small_regions_(View logits, const SmallRegions& regions);

}  // namespace sam_rlx
