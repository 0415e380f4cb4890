#include "predictors/video/masklet_tracker.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/index.h"
#include "masks/small_regions.h"
#include "ops/elementwise.h"
#include "ops/resize.h"
#include "ops/scores.h"

namespace sam_rlx {
namespace {

// A masklet is reconditioned only where its object score is above this. Upstream compares it with
// the logit, as here; SAM 3.1 with the probability.
constexpr float kReconditionLogit = 0.8F, kReconditionProbability = 0.8F;

class Stopwatch {
 public:
  // Adds the time since the call before, or since the start.
  void add_to(double& seconds) {
    const Clock::time_point now = Clock::now();
    seconds += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

// Logits whose sign is another one become those of the other mask.
void take_signs(ConstView from, View to) {
  std::transform(to.data, to.data + to.numel(), from.data, to.data, [](float own, float other) {
    return (own > 0.0F) == (other > 0.0F) ? own : other;
  });
}

ConstView plane(ConstView map) { return map.reshape({1, map.shape[0], map.shape[1]}); }

}  // namespace

MaskletTracker::MaskletTracker(TrackedObjects& objects, MaskletPrompt prompt,
                               const MaskletConfig& config, std::int64_t owner)
    : objects_(&objects),
      prompt_(std::move(prompt)),
      config_(config),
      owner_(owner),
      sam3_1_(objects.step().multiplex() != nullptr) {
  state_.hot_start = HotStart(config.hot_start, sam3_1_);
  objects_->enable_detector();
}

// ---------------------------------------------------------------- one frame

// Upstream: _det_track_one_frame.
std::int64_t MaskletTracker::det_track_one_frame(const Step& step) {
  Context ctx = objects_->context();
  const Workspace::Scope scratch(ctx.workspace);

  Seconds seconds;
  Stopwatch watch;
  const FrameDetections found = run_detection(ctx, step.frame);
  watch.add_to(seconds.detector);
  const Propagated propagated = run_propagation(ctx, step);
  watch.add_to(seconds.tracker);

  const Plan plan = make_plan(ctx, step, found, propagated);
  recondition(ctx, step, found, propagated, plan);
  if (!state_.obj_ids.empty()) {
    suppress_overlapping(ctx, step, propagated, plan);
    watch.add_to(seconds.association);
    update_memories(ctx, step.frame, propagated.low_res_masks);
    watch.add_to(seconds.tracker);
  }
  build_outputs(ctx, step, found, propagated, plan);
  watch.add_to(seconds.association);
  add_new_objects(ctx, step.frame, found, plan);
  watch.add_to(seconds.tracker);
  seconds_ = seconds;
  for (const std::int64_t obj_id : plan.hot_start.removed) forget(obj_id);
  if (config_.forget_unseen_after > 0) forget_unseen(step.frame, plan.hot_start.removed);
  state_.counts.set(step.frame,
                    {static_cast<std::int64_t>(state_.obj_ids.size()), plan.num_dropped});
  return static_cast<std::int64_t>(plan.new_obj_ids.size());
}

void MaskletTracker::suppress_overlapping(Context& ctx, const Step& step,
                                          const Propagated& propagated, const Plan& plan) {
  const float threshold = config_.suppress_overlapping_based_on_recent_occlusion_threshold;
  if (!(threshold > 0.0F)) return;
  state_.last_occluded = suppress_recently_occluded_(ctx, propagated.low_res_masks,
                                                     {.frame_idx = step.frame,
                                                      .reverse = step.reverse,
                                                      .iou_threshold = threshold,
                                                      .obj_ids = state_.obj_ids,
                                                      .removed = plan.hot_start.removed,
                                                      .before = state_.last_occluded});
}

bool MaskletTracker::is_searched(std::int64_t frame) const {
  return prompt_.has_text || state_.examples.contains(frame);
}

FrameDetections MaskletTracker::run_detection(Context& ctx, std::int64_t index) {
  const std::int64_t side = objects_->model().info().mask_side;
  if (!is_searched(index)) return {.masks = Tensor({0, side, side})};
  const EncodedFrame& frame = objects_->frame_for_detector(index);
  const sam3::Detector& detector = objects_->model().sam3().detector;
  const TextCache::Text& text =
      *texts_.get(ctx, *detector.backbone.language_backbone,
                  {prompt_.ids.data(), 1, static_cast<std::int64_t>(prompt_.ids.size())})[0];
  ConceptGeometry geometry;
  if (const auto examples = state_.examples.find(index); examples != state_.examples.end()) {
    geometry.num_boxes = static_cast<std::int64_t>(examples->second.labels.size());
    geometry.boxes = examples->second.boxes.data();
    geometry.box_labels = examples->second.labels.data();
    geometry.fractions = examples->second.fractions;
  }
  // SAM 3.1 knows no finding close to the edge while it follows something, SAM 3 no new one.
  const bool inside_only =
      sam3_1_ && !state_.obj_ids.empty() && config_.association.suppress_det_close_to_boundary;
  const FrameDetector finder{
      .heads = *detector.heads, .side = side, .nms = config_.nms, .inside_only = inside_only};
  return finder.detect(
      ctx, frame.detector,
      {text.tokens, text.padding.get(), geometric_prompt(ctx, geometry, *objects_->orig_hw())});
}

// The memory of the frame is made later, of masks that the rules have changed.
MaskletTracker::Propagated MaskletTracker::run_propagation(Context& ctx, const Step& step) {
  objects_->track_masklets(
      {.frame = step.frame, .reverse = step.reverse, .handles = state_.obj_ids});
  return low_res_masks(ctx, step.frame, state_.obj_ids);
}

MaskletTracker::Propagated MaskletTracker::low_res_masks(
    Context& ctx, std::int64_t frame, std::span<const std::int64_t> obj_ids) const {
  const std::int64_t side = objects_->model().info().mask_side;
  Propagated out{.low_res_masks =
                     ctx.workspace.floats({static_cast<std::int64_t>(obj_ids.size()), side, side})};
  for (std::size_t k = 0; k < obj_ids.size(); ++k) {
    const FrameOutput& output = *objects_->find(obj_ids[k])->tracked_output(frame);
    const View mask = out.low_res_masks[static_cast<std::int64_t>(k)];
    copy_(ctx, mask, output.low_res_mask);
    remove_small_components_(mask, config_.fill_hole_area);
    out.object_score_logits.push_back(output.object_score_logits);
  }
  return out;
}

// Upstream: run_tracker_update_planning_phase.
MaskletTracker::Plan MaskletTracker::make_plan(Context& ctx, const Step& step,
                                               const FrameDetections& found,
                                               const Propagated& propagated) {
  const Detections found_now{found.masks, found.scores, found.boxes};
  const Masklets tracked{propagated.low_res_masks, state_.obj_ids};
  const AssociationConfig& config = config_.association;
  Plan plan{.association = associate_det_trk(ctx, config, found_now, tracked)};
  plan.corrected = masklets_to_correct(config, found_now, tracked, plan.association);
  std::vector<std::int64_t>& detections = plan.association.new_detections;
  if (config.suppress_det_close_to_boundary && !sam3_1_) {
    std::erase_if(detections, [&](std::int64_t detection) {
      return is_close_to_boundary(found.box(detection));
    });
  }
  const auto count = static_cast<std::int64_t>(state_.obj_ids.size());
  plan.num_dropped = static_cast<std::int64_t>(detections.size());
  detections =
      limit_new_detections(std::move(detections), found.scores, config_.most_objects() - count);
  plan.num_dropped -= static_cast<std::int64_t>(detections.size());
  for (std::size_t i = 0; i < detections.size(); ++i) {
    plan.new_obj_ids.push_back(step.next_obj_id + static_cast<std::int64_t>(i));
  }
  plan.hot_start =
      state_.hot_start.process({step.frame, step.reverse, plan.association, plan.new_obj_ids});
  return plan;
}

// On every n-th frame, and where the box of a confident detection contradicts a masklet's mask, the
// masks of confident detections become prompts of their masklets, and of the whole batch with
// SAM 3. With SAM 3.1 they change the masks themselves. Upstream: _recondition_masklets.
void MaskletTracker::recondition(Context& ctx, const Step& step, const FrameDetections& found,
                                 const Propagated& propagated, const Plan& plan) {
  const std::int64_t every = config_.recondition_every_nth_frame;
  if (plan.corrected.empty() && (every <= 0 || step.frame % every != 0)) return;
  bool is_any = false;
  for (const auto& [obj_id, detection] : plan.association.confident) {
    const auto position =
        std::find(state_.obj_ids.begin(), state_.obj_ids.end(), obj_id) - state_.obj_ids.begin();
    const float logit = propagated.object_score_logits[at(position)];
    const bool is_sure =
        sam3_1_ ? sigmoid(logit) > kReconditionProbability : logit > kReconditionLogit;
    if (!is_sure) continue;
    const Workspace::Scope scratch(ctx.workspace);
    const ConstView mask = found.masks.view()[detection];
    objects_->add_masklet({.frame = step.frame, .handle = obj_id, .owner = owner_},
                          input_mask(ctx, mask));
    if (sam3_1_) take_signs(mask, propagated.low_res_masks[position]);
    is_any = true;
  }
  if (!is_any) return;
  objects_->encode_pending(step.frame);
  objects_->preflight();
}

// Upstream: _tracker_update_memories.
void MaskletTracker::update_memories(Context& ctx, std::int64_t frame, ConstView masks) {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t size = 4 * objects_->model().info().mask_side;
  const View high_res = ctx.workspace.floats({masks.shape[0], size, size});
  resize_bilinear(ctx, masks, high_res);
  suppress_shrunk_masks_(ctx, high_res);
  objects_->remember_masklets(frame, state_.obj_ids, high_res);
}

// A mask of the detector as a prompt of the tracker: zeros and ones, at the side of the latter.
View MaskletTracker::input_mask(Context& ctx, ConstView low_res_mask) const {
  const std::int64_t size = 4 * objects_->model().info().mask_side;
  const View mask = ctx.workspace.floats({1, size, size});
  resize_bilinear(ctx, plane(low_res_mask), mask);
  std::transform(mask.data, mask.data + mask.numel(), mask.data,
                 [](float logit) { return logit > 0.0F ? 1.0F : 0.0F; });
  return mask[0];
}

// Objects found on one frame are one batch. Upstream: _tracker_add_new_objects.
void MaskletTracker::add_new_objects(Context& ctx, std::int64_t frame, const FrameDetections& found,
                                     const Plan& plan) {
  if (plan.new_obj_ids.empty()) return;
  for (std::size_t i = 0; i < plan.new_obj_ids.size(); ++i) {
    const Workspace::Scope scratch(ctx.workspace);
    const std::int64_t detection = plan.association.new_detections[i];
    objects_->add_masklet({.frame = frame,
                           .handle = plan.new_obj_ids[i],
                           .owner = owner_,
                           .together = static_cast<std::int64_t>(plan.new_obj_ids.size())},
                          input_mask(ctx, found.masks.view()[detection]));
    state_.obj_ids.push_back(plan.new_obj_ids[i]);
    state_.scores[plan.new_obj_ids[i]] = found.scores[at(detection)];
  }
  objects_->encode_pending(frame);
  objects_->preflight();
}

void MaskletTracker::forget_unseen(std::int64_t frame, const std::set<std::int64_t>& removed) {
  for (const std::int64_t obj_id : removed) state_.hot_start.forget(obj_id);
  for (const std::int64_t obj_id : seen_ids(frame)) state_.last_seen[obj_id] = frame;
  std::vector<std::int64_t> lost;
  for (const std::int64_t obj_id : state_.obj_ids) {
    const std::int64_t last = state_.last_seen.try_emplace(obj_id, frame).first->second;
    if (frame - last > config_.forget_unseen_after) lost.push_back(obj_id);
  }
  for (const std::int64_t obj_id : lost) {
    forget(obj_id);
    state_.hot_start.forget(obj_id);
  }
}

// ---------------------------------------------------------------- results

// Upstream: build_outputs.
void MaskletTracker::build_outputs(Context& ctx, const Step& step, const FrameDetections& found,
                                   const Propagated& propagated, const Plan& plan) {
  MaskletResults results{.suppressed = plan.hot_start.suppressed,
                         .unconfirmed = state_.hot_start.unconfirmed(),
                         .reverse = step.reverse};
  for (std::size_t k = 0; k < state_.obj_ids.size(); ++k) {
    const View mask = propagated.low_res_masks[static_cast<std::int64_t>(k)];
    results.masks[state_.obj_ids[k]] = video_mask(ctx, mask);
    results.tracker_scores[state_.obj_ids[k]] = sigmoid(propagated.object_score_logits[k]);
  }
  for (std::size_t i = 0; i < plan.new_obj_ids.size(); ++i) {
    const Workspace::Scope scratch(ctx.workspace);
    const std::int64_t detection = plan.association.new_detections[i];
    const ConstView mask = found.masks.view()[detection];
    const View filled = ctx.workspace.floats(mask.shape);
    copy_(ctx, filled, mask);
    remove_small_components_(filled, config_.fill_hole_area);
    results.masks[plan.new_obj_ids[i]] = video_mask(ctx, filled);
    results.tracker_scores[plan.new_obj_ids[i]] = found.scores[at(detection)];
  }
  for (const std::int64_t obj_id : plan.corrected) {
    const std::int64_t detection = plan.association.confident.at(obj_id);
    results.masks[obj_id] = video_mask(ctx, found.masks.view()[detection]);
  }
  state_.results.set(step.frame, std::make_shared<const MaskletResults>(std::move(results)));
}

Rle MaskletTracker::video_mask(Context& ctx, ConstView low_res_mask) const {
  const Size hw = *objects_->orig_hw();
  const std::int64_t side = low_res_mask.shape[0];
  MaskSummary summary;
  summarize_masks(ctx, {low_res_mask.data},
                  {.low_height = side, .low_width = side, .height = hw.height, .width = hw.width},
                  {.frame = {.height = hw.height, .width = hw.width}}, &summary);
  return std::move(summary.rle);
}

void MaskletTracker::drop_results_before(std::int64_t frame) {
  state_.results.erase_before(frame);
  state_.counts.erase_before(frame);
}

// What says which objects of a frame are no errors, some frames behind it in the direction of the
// search. Null: nothing does. Upstream: sam3/model/sam3_multiplex_tracking.py, propagate_in_video.
const MaskletResults* MaskletTracker::confirming(std::int64_t frame) const {
  const HotStartConfig& config = config_.hot_start;
  const std::int64_t ahead = config.masklet_confirmation_consecutive_det_thresh - 1;
  const std::optional<std::int64_t> count = objects_->step().num_frames();
  if (config.hotstart_delay == 0 || (count && *count <= ahead)) return nullptr;
  const bool reverse = (*state_.results.find(frame))->reverse;
  std::int64_t index = reverse ? std::max<std::int64_t>(frame - ahead, 0) : frame + ahead;
  if (count) index = std::min(index, *count - 1);
  const MaskletResultsPtr* const found = state_.results.find(index);
  return found == nullptr ? nullptr : found->get();
}

std::vector<std::int64_t> MaskletTracker::seen_ids(std::int64_t frame) const {
  std::vector<std::int64_t> out;
  const MaskletResultsPtr* const found = state_.results.find(frame);
  if (found == nullptr) return out;
  const MaskletResults& results = **found;
  const MaskletResults* const later = confirming(frame);
  for (const auto& [obj_id, mask] : results.masks) {
    const bool hidden = !state_.scores.contains(obj_id) || results.suppressed.contains(obj_id) ||
                        (later != nullptr && later->unconfirmed.contains(obj_id));
    if (!hidden && rle_area(mask) > 0) out.push_back(obj_id);
  }
  return out;
}

MaskletTracker::Seen MaskletTracker::seen(std::int64_t frame) const {
  Seen seen{.obj_ids = seen_ids(frame), .hw = objects_->orig_hw().value_or(Size{})};
  if (const MaskletCounts* const counts = state_.counts.find(frame)) seen.counts = *counts;
  for (const std::int64_t obj_id : seen.obj_ids) {
    seen.scores.push_back(state_.scores.at(obj_id));
    seen.boxes.push_back(rle_box((*state_.results.find(frame))->masks.at(obj_id)));
  }
  return seen;
}

// Upstream: _postprocess_output.
void MaskletTracker::draw(std::int64_t frame, const MakeRoom& make_room) const {
  const Seen found = seen(frame);
  std::uint8_t* const out = make_room(found);
  if (found.obj_ids.empty()) return;
  const MaskletResults& results = **state_.results.find(frame);
  const std::int64_t positions = found.hw.height * found.hw.width;
  std::vector<float> scores;
  for (std::size_t k = 0; k < found.obj_ids.size(); ++k) {
    decode_rle(results.masks.at(found.obj_ids[k]), out + static_cast<std::int64_t>(k) * positions);
    const auto score = results.tracker_scores.find(found.obj_ids[k]);
    scores.push_back(score == results.tracker_scores.end() ? 0.0F : score->second);
  }
  if (found.obj_ids.size() < 2) return;
  Context ctx = objects_->context();
  keep_best_masklets_(ctx, out, positions, scores);
}

// ---------------------------------------------------------------- clicks

// Clicks on one of the objects that a text names. Upstream: sam3/model/sam3_video_inference.py,
// Sam3VideoInferenceWithInstanceInteractivity.

// Upstream: add_tracker_new_points.
void MaskletTracker::refine(const PointPrompt& prompt, bool may_be_new) {
  MaskletResultsPtr* const results = state_.results.find(prompt.frame);
  const std::int64_t obj_id = prompt.handle;
  const bool is_new = !state_.scores.contains(obj_id);
  if (is_new && !may_be_new) {
    fail("add_prompt", "an object that was found", "object " + std::to_string(obj_id));
  }
  if (results == nullptr) {
    fail<StateError>("add_prompt", "a frame that was tracked",
                     "frame " + std::to_string(prompt.frame));
  }
  objects_->add_points(prompt);
  if (is_new) {
    objects_->give_to_text(obj_id);
    state_.obj_ids.push_back(obj_id);
  }

  Context ctx = objects_->context();
  const Workspace::Scope scratch(ctx.workspace);
  const Size hw = *objects_->orig_hw();
  const View logits = ctx.workspace.floats({1, hw.height, hw.width});
  const FrameOutput* const output = objects_->find(obj_id)->latest_output(prompt.frame, true);
  objects_->step().upscale(ctx, {&output, 1}, hw, logits);
  remove_small_components_(logits[0], config_.fill_hole_area);
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(logits.numel()));
  std::transform(logits.data, logits.data + logits.numel(), mask.begin(),
                 [](float logit) { return static_cast<std::uint8_t>(logit > 0.0F); });
  MaskletResults found = **results;
  found.masks[obj_id] = encode_rle(mask.data(), hw.height, hw.width, hw.width);
  found.tracker_scores[obj_id] = state_.scores[obj_id] = 1.0F;
  *results = std::make_shared<const MaskletResults>(std::move(found));
  for (auto& [frame, shown] : state_.results) {
    if (!shown->suppressed.contains(obj_id) && !shown->unconfirmed.contains(obj_id)) continue;
    MaskletResults rest = *shown;
    rest.suppressed.erase(obj_id);
    rest.unconfirmed.erase(obj_id);
    shown = std::make_shared<const MaskletResults>(std::move(rest));
  }
  state_.hot_start.confirm(obj_id, prompt.frame);

  objects_->encode_pending(prompt.frame);
  objects_->preflight();
  clear_cond_frames_of_detector(obj_id, prompt.frame);
}

// Masks that the detector gave the object and its batch as prompts, on frames around a click, are
// removed: tracking from the click decides there.
// Upstream: clear_detector_added_cond_frame_in_tracker.
void MaskletTracker::clear_cond_frames_of_detector(std::int64_t obj_id,
                                                   std::int64_t refined_frame) {
  const TrackedObject& refined = *objects_->find(obj_id);
  std::vector<std::int64_t> frames;
  for (const std::int64_t frame : refined.mask_frames) {
    const std::int64_t window = config_.refinement_detector_cond_frame_removal_window;
    if (std::abs(frame - refined_frame) <= window) frames.push_back(frame);
  }
  const std::vector<std::int64_t> members = with_batches({&obj_id, 1});
  for (const std::int64_t frame : frames) {
    for (const std::int64_t member : members) objects_->clear_prompts(frame, member);
  }
}

// All objects of the batches that some belong to.
std::vector<std::int64_t> MaskletTracker::with_batches(
    std::span<const std::int64_t> obj_ids) const {
  std::set<std::int64_t> batches;
  for (const std::int64_t obj_id : obj_ids) {
    if (const TrackedObject* const object = objects_->find(obj_id)) {
      batches.insert(object->batch);
    }
  }
  std::vector<std::int64_t> members;
  for (const std::int64_t obj_id : state_.obj_ids) {
    if (batches.contains(objects_->find(obj_id)->batch)) members.push_back(obj_id);
  }
  return members;
}

// Upstream's partial propagation; the scores of refined objects are logits there too, so that most
// often their masks are the ones that stay.
void MaskletTracker::track_refined(std::int64_t frame, bool reverse,
                                   std::span<const std::int64_t> obj_ids) {
  MaskletResultsPtr* const results = state_.results.find(frame);
  if (results == nullptr) {
    fail<StateError>("propagate", "a frame that was tracked", "frame " + std::to_string(frame));
  }
  const std::vector<std::int64_t> members = with_batches(obj_ids);
  objects_->track_masklets(
      {.frame = frame, .reverse = reverse, .handles = members, .run_mem_encoder = true});
  Context ctx = objects_->context();
  const Workspace::Scope scratch(ctx.workspace);
  const Propagated found = low_res_masks(ctx, frame, members);
  MaskletResults shown = **results;
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (std::find(obj_ids.begin(), obj_ids.end(), members[k]) == obj_ids.end()) continue;
    const View mask = found.low_res_masks[static_cast<std::int64_t>(k)];
    shown.masks[members[k]] = video_mask(ctx, mask);
    shown.tracker_scores[members[k]] = found.object_score_logits[k];
  }
  *results = std::make_shared<const MaskletResults>(std::move(shown));
}

void MaskletTracker::remove_object(std::int64_t obj_id) {
  if (!state_.scores.contains(obj_id)) {
    fail("remove_object", "an object that was found", "object " + std::to_string(obj_id));
  }
  forget(obj_id);
}

void MaskletTracker::forget(std::int64_t obj_id) {
  if (std::erase(state_.obj_ids, obj_id) == 0) return;
  objects_->remove(obj_id);
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
