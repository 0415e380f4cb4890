#include "predictors/video/masklet_tracker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "masks/small_regions.h"
#include "ops/elementwise.h"
#include "ops/resize.h"
#include "ops/scores.h"

namespace sam_rlx {
namespace {

// A masklet starts anew only where the tracker is surer than this of it. Upstream compares it with
// the logit.
constexpr float kReconditionLogit = 0.8F;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

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

ConstView plane(ConstView map) { return map.reshape({1, map.shape[0], map.shape[1]}); }

}  // namespace

MaskletTracker::MaskletTracker(VideoSession& session, MaskletPrompt prompt,
                               const MaskletConfig& config)
    : session_(&session), prompt_(std::move(prompt)), config_(config) {
  state_.hot_start = HotStart(config.hot_start);
  session_->enable_detector();
}

// ---------------------------------------------------------------- one frame

// Upstream: _det_track_one_frame.
std::int64_t MaskletTracker::det_track_one_frame(const Step& step) {
  Context ctx = session_->context();
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
    state_.last_occluded = suppress_recently_occluded_(
        ctx, propagated.low_res_masks,
        {.frame_idx = step.frame,
         .reverse = step.reverse,
         .iou_threshold = config_.suppress_overlapping_based_on_recent_occlusion_threshold,
         .obj_ids = state_.obj_ids,
         .removed = plan.hot_start.removed,
         .before = state_.last_occluded});
    watch.add_to(seconds.association);
    update_memories(ctx, step.frame, propagated.low_res_masks);
    watch.add_to(seconds.tracker);
  }
  build_outputs(ctx, step.frame, found, propagated, plan);
  watch.add_to(seconds.association);
  add_new_objects(ctx, step.frame, found, plan);
  watch.add_to(seconds.tracker);
  seconds_ = seconds;
  for (const std::int64_t obj_id : plan.hot_start.removed) forget(obj_id);
  if (config_.forget_unseen_after > 0) forget_unseen(step.frame, plan.hot_start.removed);
  state_.counts[step.frame] = {static_cast<std::int64_t>(state_.obj_ids.size()), plan.num_dropped};
  return static_cast<std::int64_t>(plan.new_obj_ids.size());
}

bool MaskletTracker::is_searched(std::int64_t frame) const {
  return prompt_.has_text || state_.examples.contains(frame);
}

FrameDetections MaskletTracker::run_detection(Context& ctx, std::int64_t index) {
  const std::int64_t side = session_->model().info().mask_side;
  if (!is_searched(index)) return {.masks = Tensor({0, side, side})};
  const EncodedFrame& frame = session_->frame_for_detector(index);
  const sam3::Detector& detector = session_->model().sam3().detector;
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
  return FrameDetector{*detector.heads, side, config_.nms}.detect(
      ctx, frame.detector,
      {text.tokens, text.padding.get(), geometric_prompt(ctx, geometry, *session_->orig_hw())});
}

// The memory of the frame is made later, of masks that the rules have changed.
MaskletTracker::Propagated MaskletTracker::run_propagation(Context& ctx, const Step& step) {
  session_->track_masklets(
      {.frame = step.frame, .reverse = step.reverse, .handles = state_.obj_ids});
  return low_res_masks(ctx, step.frame, state_.obj_ids);
}

MaskletTracker::Propagated MaskletTracker::low_res_masks(
    Context& ctx, std::int64_t frame, std::span<const std::int64_t> obj_ids) const {
  const std::int64_t side = session_->model().info().mask_side;
  Propagated out{.low_res_masks =
                     ctx.workspace.floats({static_cast<std::int64_t>(obj_ids.size()), side, side})};
  for (std::size_t k = 0; k < obj_ids.size(); ++k) {
    const FrameOutput& output = *session_->find_object(obj_ids[k])->tracked_output(frame);
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
  Plan plan{.association = associate_det_trk(ctx, config_.association, {found.masks, found.scores},
                                             {propagated.low_res_masks, state_.obj_ids})};
  std::vector<std::int64_t>& detections = plan.association.new_detections;
  const auto count = static_cast<std::int64_t>(state_.obj_ids.size());
  plan.num_dropped = static_cast<std::int64_t>(detections.size());
  detections =
      limit_new_detections(std::move(detections), found.scores, config_.max_num_objects - count);
  plan.num_dropped -= static_cast<std::int64_t>(detections.size());
  for (std::size_t i = 0; i < detections.size(); ++i) {
    plan.new_obj_ids.push_back(step.next_obj_id + static_cast<std::int64_t>(i));
  }
  plan.hot_start =
      state_.hot_start.process({step.frame, step.reverse, plan.association, plan.new_obj_ids});
  return plan;
}

// What is seen clearly starts masklets anew from time to time, all of their batch with them.
// Upstream: _recondition_masklets.
void MaskletTracker::recondition(Context& ctx, const Step& step, const FrameDetections& found,
                                 const Propagated& propagated, const Plan& plan) {
  const std::int64_t every = config_.recondition_every_nth_frame;
  if (every <= 0 || step.frame % every != 0) return;
  for (const auto& [obj_id, detection] : plan.association.confident) {
    const auto position =
        std::find(state_.obj_ids.begin(), state_.obj_ids.end(), obj_id) - state_.obj_ids.begin();
    if (!(propagated.object_score_logits[at(position)] > kReconditionLogit)) continue;
    const Workspace::Scope scratch(ctx.workspace);
    session_->add_masklet(step.frame, obj_id, input_mask(ctx, found.masks.view()[detection]));
    session_->encode_pending(step.frame);
    session_->preflight();
  }
}

// Upstream: _tracker_update_memories.
void MaskletTracker::update_memories(Context& ctx, std::int64_t frame, ConstView masks) {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t size = 4 * session_->model().info().mask_side;
  const View high_res = ctx.workspace.floats({masks.shape[0], size, size});
  resize_bilinear(ctx, masks, high_res);
  suppress_shrunk_masks_(ctx, high_res);
  session_->remember_masklets(frame, state_.obj_ids, high_res);
}

// A mask of the detector as a prompt of the tracker: zeros and ones, at the side of the latter.
View MaskletTracker::input_mask(Context& ctx, ConstView low_res_mask) const {
  const std::int64_t size = 4 * session_->model().info().mask_side;
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
    session_->add_masklet(frame, plan.new_obj_ids[i],
                          input_mask(ctx, found.masks.view()[detection]));
    state_.obj_ids.push_back(plan.new_obj_ids[i]);
    state_.scores[plan.new_obj_ids[i]] = found.scores[at(detection)];
  }
  session_->encode_pending(frame);
  session_->preflight();
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
void MaskletTracker::build_outputs(Context& ctx, std::int64_t frame, const FrameDetections& found,
                                   const Propagated& propagated, const Plan& plan) {
  MaskletResults results{.suppressed = plan.hot_start.suppressed};
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
  state_.results[frame] = std::make_shared<const MaskletResults>(std::move(results));
}

Rle MaskletTracker::video_mask(Context& ctx, ConstView low_res_mask) const {
  const Size hw = *session_->orig_hw();
  const std::int64_t side = low_res_mask.shape[0];
  MaskSummary summary;
  summarize_masks(ctx, {low_res_mask.data},
                  {.low_height = side, .low_width = side, .height = hw.height, .width = hw.width},
                  {.frame = {.height = hw.height, .width = hw.width}}, &summary);
  return std::move(summary.rle);
}

void MaskletTracker::drop_results_before(std::int64_t frame) {
  state_.results.erase(state_.results.begin(), state_.results.lower_bound(frame));
  state_.counts.erase(state_.counts.begin(), state_.counts.lower_bound(frame));
}

std::vector<std::int64_t> MaskletTracker::seen_ids(std::int64_t frame) const {
  std::vector<std::int64_t> out;
  const auto found = state_.results.find(frame);
  if (found == state_.results.end()) return out;
  const MaskletResults& results = *found->second;
  for (const auto& [obj_id, mask] : results.masks) {
    const bool hidden = !state_.scores.contains(obj_id) || results.suppressed.contains(obj_id);
    if (!hidden && rle_area(mask) > 0) out.push_back(obj_id);
  }
  return out;
}

MaskletTracker::Seen MaskletTracker::seen(std::int64_t frame) const {
  Seen seen{.obj_ids = seen_ids(frame), .hw = session_->orig_hw().value_or(Size{})};
  if (const auto counts = state_.counts.find(frame); counts != state_.counts.end()) {
    seen.counts = counts->second;
  }
  for (const std::int64_t obj_id : seen.obj_ids) {
    seen.scores.push_back(state_.scores.at(obj_id));
    seen.boxes.push_back(rle_box(state_.results.at(frame)->masks.at(obj_id)));
  }
  return seen;
}

// Upstream: _postprocess_output.
void MaskletTracker::draw(std::int64_t frame, const MakeRoom& make_room) const {
  const Seen found = seen(frame);
  std::uint8_t* const out = make_room(found);
  if (found.obj_ids.empty()) return;
  const MaskletResults& results = *state_.results.at(frame);
  const std::int64_t positions = found.hw.height * found.hw.width;
  std::vector<float> scores;
  for (std::size_t k = 0; k < found.obj_ids.size(); ++k) {
    decode_rle(results.masks.at(found.obj_ids[k]), out + static_cast<std::int64_t>(k) * positions);
    const auto score = results.tracker_scores.find(found.obj_ids[k]);
    scores.push_back(score == results.tracker_scores.end() ? 0.0F : score->second);
  }
  if (found.obj_ids.size() < 2) return;
  Context ctx = session_->context();
  keep_best_masklets_(ctx, out, positions, scores);
}

}  // namespace sam_rlx
