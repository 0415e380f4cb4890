#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "predictors/masklet_tracker.h"
#include "predictors/small_regions.h"

// Clicks on one of the objects that a phrase names. Upstream: sam3/model/sam3_video_inference.py,
// Sam3VideoInferenceWithInstanceInteractivity.

namespace sam_rlx {

// Upstream: add_tracker_new_points.
void MaskletTracker::refine(const VideoPredictor::PointPrompt& prompt, bool may_be_new) {
  const auto results = results_.find(prompt.frame);
  const std::int64_t obj_id = prompt.handle;
  const bool is_new = !scores_.contains(obj_id);
  if (is_new && !may_be_new) {
    fail("add_prompt", "an object that was found", "object " + std::to_string(obj_id));
  }
  if (results == results_.end()) {
    fail<StateError>("add_prompt", "a frame that was tracked",
                     "frame " + std::to_string(prompt.frame));
  }
  video_->add_points(prompt);
  if (is_new) {
    video_->claim(obj_id);
    obj_ids_.push_back(obj_id);
  }

  const VideoPredictor::Uninterrupted whole(*video_);
  Context ctx = video_->context();
  const Workspace::Scope scratch(ctx.workspace);
  const Size hw = *video_->orig_hw();
  const View logits = ctx.workspace.floats({1, hw.height, hw.width});
  video_->upscale({{obj_id, video_->find_object(obj_id)->latest_output(prompt.frame, true)}},
                  logits);
  remove_small_components_(logits[0], config_.fill_hole_area);
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(logits.numel()));
  std::transform(logits.data, logits.data + logits.numel(), mask.begin(),
                 [](float logit) { return static_cast<std::uint8_t>(logit > 0.0F); });
  results->second.masks[obj_id] = encode_rle(mask.data(), hw.height, hw.width, hw.width);
  results->second.tracker_scores[obj_id] = scores_[obj_id] = 1.0F;
  for (auto& [frame, found] : results_) found.suppressed.erase(obj_id);
  hot_start_.confirm(obj_id, prompt.frame);

  video_->encode_pending(prompt.frame);
  video_->preflight();
  clear_cond_frames_of_detector(obj_id, prompt.frame);
}

// Around a click the tracker may say anew what the detector said of the object and its batch.
// Upstream: clear_detector_added_cond_frame_in_tracker.
void MaskletTracker::clear_cond_frames_of_detector(std::int64_t obj_id,
                                                   std::int64_t refined_frame) {
  const TrackedObject& refined = *video_->find_object(obj_id);
  std::vector<std::int64_t> frames;
  for (const std::int64_t frame : refined.mask_frames) {
    const std::int64_t window = config_.refinement_detector_cond_frame_removal_window;
    if (std::abs(frame - refined_frame) <= window) frames.push_back(frame);
  }
  const std::vector<std::int64_t> members = with_batches({&obj_id, 1});
  for (const std::int64_t frame : frames) {
    for (const std::int64_t member : members) video_->clear_prompts(frame, member);
  }
}

// All objects of the batches that some belong to.
std::vector<std::int64_t> MaskletTracker::with_batches(
    std::span<const std::int64_t> obj_ids) const {
  std::set<std::int64_t> batches;
  for (const std::int64_t obj_id : obj_ids) {
    if (const TrackedObject* const object = video_->find_object(obj_id)) {
      batches.insert(object->batch);
    }
  }
  std::vector<std::int64_t> members;
  for (const std::int64_t obj_id : obj_ids_) {
    if (batches.contains(video_->find_object(obj_id)->batch)) members.push_back(obj_id);
  }
  return members;
}

// Upstream's partial propagation; the scores of refined objects are logits there too, so that most
// often their masks are the ones that stay.
void MaskletTracker::track_refined(std::int64_t frame, bool reverse,
                                   std::span<const std::int64_t> obj_ids) {
  const auto results = results_.find(frame);
  if (results == results_.end()) {
    fail<StateError>("propagate", "a frame that was tracked", "frame " + std::to_string(frame));
  }
  const std::vector<std::int64_t> members = with_batches(obj_ids);
  video_->track_masklets(
      {.frame = frame, .reverse = reverse, .handles = members, .run_mem_encoder = true});
  Context ctx = video_->context();
  const Workspace::Scope scratch(ctx.workspace);
  const Propagated found = low_res_masks(ctx, frame, members);
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (std::find(obj_ids.begin(), obj_ids.end(), members[k]) == obj_ids.end()) continue;
    const View mask = found.low_res_masks[static_cast<std::int64_t>(k)];
    results->second.masks[members[k]] = video_mask(ctx, mask);
    results->second.tracker_scores[members[k]] = found.object_score_logits[k];
  }
}

void MaskletTracker::remove_object(std::int64_t obj_id) {
  if (!scores_.contains(obj_id)) {
    fail("remove_object", "an object that was found", "object " + std::to_string(obj_id));
  }
  forget(obj_id);
}

void MaskletTracker::forget(std::int64_t obj_id) {
  if (std::erase(obj_ids_, obj_id) == 0) return;
  video_->remove_object(obj_id);
  scores_.erase(obj_id);
  last_seen_.erase(obj_id);
  last_occluded_.erase(obj_id);
  for (auto& [frame, found] : results_) {
    found.masks.erase(obj_id);
    found.tracker_scores.erase(obj_id);
  }
}

}  // namespace sam_rlx
