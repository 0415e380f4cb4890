#include "models/sam3/memory_selection.h"

#include <algorithm>
#include <cmath>

namespace sam_rlx::sam3 {
namespace {

// How sure an object is visible, 0 to 1.
double visibility(const ObjectScore& object) {
  const double logit = object.object_score_logits;
  return logit > 0.0 ? 2.0 / (1.0 + std::exp(-logit)) - 1.0 : 0.0;
}

}  // namespace

float cal_mem_score(std::span<const ObjectScore> objects) {
  double visible = 0.0, good = 0.0;
  for (const ObjectScore& object : objects) {
    visible += visibility(object);
    good += object.iou_prediction;
  }
  const auto count = static_cast<double>(objects.size());
  return static_cast<float>(visible / count * (good / count));
}

float cal_prompted_mem_score(std::span<const ObjectScore> objects) {
  double score = 0.0;
  for (const ObjectScore& object : objects) score += visibility(object) * object.iou_prediction;
  return static_cast<float>(score / static_cast<double>(objects.size()));
}

std::vector<std::int64_t> frame_filter(const FrameQuery& query,
                                       const std::function<std::optional<ScoredFrame>()>& next) {
  const std::int64_t f = query.frame_idx;
  const bool reverse = query.track_in_reverse;
  if (reverse ? f == query.num_frames - 1 : f == 0) return {};
  const std::int64_t neighbour = reverse ? f + 1 : f - 1;
  const auto most =
      static_cast<std::size_t>(std::min(query.num_frames, query.max_obj_ptrs_in_encoder) - 1);

  std::vector<std::int64_t> frames;  // newest first
  while (frames.size() < most) {
    const std::optional<ScoredFrame> entry = next();
    if (!entry) break;
    const bool counts = reverse || entry->frame > 0;
    if (counts && entry->eff_iou_score > kMemoryScoreThreshold) frames.push_back(entry->frame);
  }
  std::reverse(frames.begin(), frames.end());
  if (std::find(frames.begin(), frames.end(), neighbour) == frames.end()) {
    frames.push_back(neighbour);
  }
  return frames;
}

}  // namespace sam_rlx::sam3
