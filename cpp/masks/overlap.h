#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

#include "core/context.h"

namespace sam_rlx {

// Logits of masks that are taken away. Upstream: NO_OBJ_LOGIT, and the floor of the constraints.
constexpr float kSuppressedMaskLogit = -10.0F;

// Of masks (K, H, W), only the one with the largest logit stays at a position: the others become
// at most -10. The first of equal ones stays. Upstream:
// SAM2Base._apply_non_overlapping_constraints.
void apply_non_overlapping_constraints_(Context& ctx, View logits);

// On which frame a masklet was last empty or suppressed.
using LastOccluded = std::map<std::int64_t, std::int64_t>;

// Of two masklets with an IoU of at least `iou_threshold`, the one that was occluded last becomes
// -10 everywhere, if the other was ever occluded. masks (M, H, W) of `obj_ids`; `removed`: those
// that hot start removes on this frame. Returns when each was last occluded, this frame included.
// Upstream: Sam3VideoBase._suppress_overlapping_based_on_recent_occlusion.
struct OcclusionQuery {
  std::int64_t frame_idx = 0;
  bool reverse = false;
  float iou_threshold = 0.7F;
  std::span<const std::int64_t> obj_ids;
  const std::set<std::int64_t>& removed;
  const LastOccluded& before;
};
LastOccluded suppress_recently_occluded_(Context& ctx, View masks, const OcclusionQuery& query);

// Masks (M, H, W) that would lose more than `1 - shrink_threshold` of their positions, if at each
// position only the largest logit stayed, become at most -10; the others may overlap. Upstream:
// Sam3TrackerPredictor._suppress_object_pw_area_shrinkage.
void suppress_shrunk_masks_(Context& ctx, View masks, float shrink_threshold = 0.3F);

// At each position only the masklet with the best score stays, the first of equal ones. masks
// (K, H * W) of zeros and ones; scores not above 0 lose everywhere. Upstream:
// Sam3TrackerPredictor._apply_object_wise_non_overlapping_constraints.
void keep_best_masklets_(Context& ctx, std::uint8_t* masks, std::int64_t positions,
                         std::span<const float> scores);

}  // namespace sam_rlx
