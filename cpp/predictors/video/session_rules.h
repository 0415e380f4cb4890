#pragma once

#include <cstddef>

#include "loading/model.h"

namespace sam_rlx {

// Where upstream's sessions of SAM 2 and of SAM 3 differ. Upstream:
// sam2/sam2_video_predictor.py, SAM2VideoPredictor, and sam3/model/sam3_tracking_predictor.py,
// Sam3TrackerPredictor.
struct SessionRules {
  // A click on a frame that was tracked before sees the memory, not only the mask there.
  bool clicks_see_memory = true;
  // Of more points on one frame, the first and the last half of so many are used. 0: all are.
  std::size_t max_points = 0;
  // Objects that were prompted before the same propagation run as one batch: a frame with a prompt
  // for one of them conditions all, and its memory is made of masks that do not overlap. A mask
  // given as prompt stays as it is until then, and upstream refuses later objects.
  bool batched = false;
  // Holes are filled in masks of the video's size, where small islands go too, and not in those
  // that are kept.
  bool fill_video_masks = false;
};

// Of a model that can follow objects.
inline SessionRules session_rules(const Model& model) {
  if (!model.is_sam3()) return {};
  return {.clicks_see_memory = false, .max_points = 16, .batched = true, .fill_video_masks = true};
}

}  // namespace sam_rlx
