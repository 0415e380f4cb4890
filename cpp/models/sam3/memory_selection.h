#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace sam_rlx::sam3 {

// Below this score a frame says too little about its objects to be remembered. Upstream:
// Sam3TrackerBase, mf_threshold.
constexpr float kMemoryScoreThreshold = 0.01F;

// What one frame says of one object.
struct ObjectScore {
  float object_score_logits = 0.0F;
  float iou_prediction = 0.0F;
};

// How much a frame is worth remembering, 0 to 1: how sure the objects are visible, times how good
// their masks are, each a mean over the objects that run as one batch. Upstream:
// sam3/model/sam3_tracker_base.py, Sam3TrackerBase.cal_mem_score, whose product of (B, 1) and (B,)
// has a row for each object.
float cal_mem_score(std::span<const ObjectScore> objects);
// The same of a frame that had prompts: the mean over the objects of each one's product. Upstream's
// factors are both (B, 1) there.
float cal_prompted_mem_score(std::span<const ObjectScore> objects);

// A tracked frame and its score; below 0: it has none.
struct ScoredFrame {
  std::int64_t frame = 0;
  float eff_iou_score = -1.0F;
};

// Where a frame lies in the video.
struct FrameQuery {
  std::int64_t frame_idx = 0;
  std::int64_t num_frames = 0;  // when it is not known, any larger number
  bool track_in_reverse = false;
  std::int64_t max_obj_ptrs_in_encoder = 16;
};

// The frames that are worth remembering, newest last, and the neighbour in any case. Each call of
// `next` gives one more of the tracked frames behind the frame, the nearest first. Frame 0 is never
// one of those chosen in the direction of time. Upstream: Sam3TrackerBase.frame_filter, with a
// stride of 1.
std::vector<std::int64_t> frame_filter(const FrameQuery& query,
                                       const std::function<std::optional<ScoredFrame>()>& next);

}  // namespace sam_rlx::sam3
