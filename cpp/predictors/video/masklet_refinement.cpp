#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "masks/small_regions.h"
#include "predictors/video/masklet_tracker.h"

// Clicks on one of the objects that a text names. Upstream: sam3/model/sam3_video_inference.py,
// Sam3VideoInferenceWithInstanceInteractivity.

namespace sam_rlx {

// Upstream: add_tracker_new_points.
void MaskletTracker::refine(const VideoSession::PointPrompt& prompt, bool may_be_new) {
  const auto results = state_.results.find(prompt.frame);
  const std::int64_t obj_id = prompt.handle;
  const bool is_new = !state_.scores.contains(obj_id);
  if (is_new && !may_be_new) {
    fail("add_prompt", "an object that was found", "object " + std::to_string(obj_id));
  }
  if (results == state_.results.end()) {
    fail<StateError>("add_prompt", "a frame that was tracked",
                     "frame " + std::to_string(prompt.frame));
  }
  session_->add_points(prompt);
  if (is_new) {
    session_->claim(obj_id);
    state_.obj_ids.push_back(obj_id);
  }

  Context ctx = session_->context();
  const Workspace::Scope scratch(ctx.workspace);
  const Size hw = *session_->orig_hw();
  const View logits = ctx.workspace.floats({1, hw.height, hw.width});
  session_->upscale({{obj_id, session_->find_object(obj_id)->latest_output(prompt.frame, true)}},
                    logits);
  remove_small_components_(logits[0], config_.fill_hole_area);
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(logits.numel()));
  std::transform(logits.data, logits.data + logits.numel(), mask.begin(),
                 [](float logit) { return static_cast<std::uint8_t>(logit > 0.0F); });
  MaskletResults found = *results->second;
  found.masks[obj_id] = encode_rle(mask.data(), hw.height, hw.width, hw.width);
  found.tracker_scores[obj_id] = state_.scores[obj_id] = 1.0F;
  results->second = std::make_shared<const MaskletResults>(std::move(found));
  for (auto& [frame, shown] : state_.results) {
    if (!shown->suppressed.contains(obj_id)) continue;
    MaskletResults rest = *shown;
    rest.suppressed.erase(obj_id);
    shown = std::make_shared<const MaskletResults>(std::move(rest));
  }
  state_.hot_start.confirm(obj_id, prompt.frame);

  session_->encode_pending(prompt.frame);
  session_->preflight();
  clear_cond_frames_of_detector(obj_id, prompt.frame);
}

// Around a click the tracker may say anew what the detector said of the object and its batch.
// Upstream: clear_detector_added_cond_frame_in_tracker.
void MaskletTracker::clear_cond_frames_of_detector(std::int64_t obj_id,
                                                   std::int64_t refined_frame) {
  const TrackedObject& refined = *session_->find_object(obj_id);
  std::vector<std::int64_t> frames;
  for (const std::int64_t frame : refined.mask_frames) {
    const std::int64_t window = config_.refinement_detector_cond_frame_removal_window;
    if (std::abs(frame - refined_frame) <= window) frames.push_back(frame);
  }
  const std::vector<std::int64_t> members = with_batches({&obj_id, 1});
  for (const std::int64_t frame : frames) {
    for (const std::int64_t member : members) session_->clear_prompts(frame, member);
  }
}

// All objects of the batches that some belong to.
std::vector<std::int64_t> MaskletTracker::with_batches(
    std::span<const std::int64_t> obj_ids) const {
  std::set<std::int64_t> batches;
  for (const std::int64_t obj_id : obj_ids) {
    if (const TrackedObject* const object = session_->find_object(obj_id)) {
      batches.insert(object->batch);
    }
  }
  std::vector<std::int64_t> members;
  for (const std::int64_t obj_id : state_.obj_ids) {
    if (batches.contains(session_->find_object(obj_id)->batch)) members.push_back(obj_id);
  }
  return members;
}

// Upstream's partial propagation; the scores of refined objects are logits there too, so that most
// often their masks are the ones that stay.
void MaskletTracker::track_refined(std::int64_t frame, bool reverse,
                                   std::span<const std::int64_t> obj_ids) {
  const auto results = state_.results.find(frame);
  if (results == state_.results.end()) {
    fail<StateError>("propagate", "a frame that was tracked", "frame " + std::to_string(frame));
  }
  const std::vector<std::int64_t> members = with_batches(obj_ids);
  session_->track_masklets(
      {.frame = frame, .reverse = reverse, .handles = members, .run_mem_encoder = true});
  Context ctx = session_->context();
  const Workspace::Scope scratch(ctx.workspace);
  const Propagated found = low_res_masks(ctx, frame, members);
  MaskletResults shown = *results->second;
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (std::find(obj_ids.begin(), obj_ids.end(), members[k]) == obj_ids.end()) continue;
    const View mask = found.low_res_masks[static_cast<std::int64_t>(k)];
    shown.masks[members[k]] = video_mask(ctx, mask);
    shown.tracker_scores[members[k]] = found.object_score_logits[k];
  }
  results->second = std::make_shared<const MaskletResults>(std::move(shown));
}

void MaskletTracker::remove_object(std::int64_t obj_id) {
  if (!state_.scores.contains(obj_id)) {
    fail("remove_object", "an object that was found", "object " + std::to_string(obj_id));
  }
  forget(obj_id);
}

void MaskletTracker::forget(std::int64_t obj_id) {
  if (std::erase(state_.obj_ids, obj_id) == 0) return;
  session_->remove_object(obj_id);
  state_.scores.erase(obj_id);
  state_.last_seen.erase(obj_id);
  state_.last_occluded.erase(obj_id);
  for (auto& [frame, found] : state_.results) {
    if (!found->masks.contains(obj_id)) continue;
    MaskletResults rest = *found;
    rest.masks.erase(obj_id);
    rest.tracker_scores.erase(obj_id);
    found = std::make_shared<const MaskletResults>(std::move(rest));
  }
}

}  // namespace sam_rlx
