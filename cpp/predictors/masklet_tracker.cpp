#include "predictors/masklet_tracker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "ops/elementwise.h"
#include "ops/resize.h"
#include "ops/scores.h"
#include "predictors/small_regions.h"

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

MaskletTracker::MaskletTracker(std::shared_ptr<VideoPredictor> video, MaskletPrompt prompt,
                               const MaskletConfig& config)
    : video_(std::move(video)),
      prompt_(std::move(prompt)),
      config_(config),
      hot_start_(config.hot_start) {
  video_->enable_detector();
}

void MaskletTracker::set_examples(std::int64_t frame, MaskletExamples examples) {
  examples_[frame] = std::move(examples);
}

// ---------------------------------------------------------------- one frame

// Upstream: _det_track_one_frame.
std::int64_t MaskletTracker::det_track_one_frame(const Step& step) {
  Context ctx = video_->context();
  const Workspace::Scope scratch(ctx.workspace);

  Seconds seconds;
  Stopwatch watch;
  const FrameDetections found = run_detection(ctx, step.frame);
  watch.add_to(seconds.detector);
  const Propagated propagated = run_propagation(ctx, step);
  watch.add_to(seconds.tracker);

  // From here on the frame counts whole.
  const VideoPredictor::Uninterrupted whole(*video_);
  const Plan plan = make_plan(ctx, step, found, propagated);
  recondition(ctx, step, found, propagated, plan);
  if (!obj_ids_.empty()) {
    last_occluded_ = suppress_recently_occluded_(
        ctx, propagated.low_res_masks,
        {.frame_idx = step.frame,
         .reverse = step.reverse,
         .iou_threshold = config_.suppress_overlapping_based_on_recent_occlusion_threshold,
         .obj_ids = obj_ids_,
         .removed = plan.hot_start.removed,
         .before = last_occluded_});
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
  return static_cast<std::int64_t>(plan.new_obj_ids.size());
}

bool MaskletTracker::is_searched(std::int64_t frame) const {
  return prompt_.has_phrase || examples_.contains(frame);
}

FrameDetections MaskletTracker::run_detection(Context& ctx, std::int64_t index) {
  const std::int64_t side = video_->model().info().mask_side;
  if (!is_searched(index)) return {.masks = Tensor({0, side, side})};
  const EncodedFrame& frame = video_->frame_for_detector(index);
  const sam3::Detector& detector = video_->model().sam3().detector;
  const TextCache::Phrase& phrase =
      *texts_.get(ctx, detector.backbone.language_backbone,
                  {prompt_.ids.data(), 1, static_cast<std::int64_t>(prompt_.ids.size())})[0];
  ConceptGeometry geometry;
  if (const auto examples = examples_.find(index); examples != examples_.end()) {
    geometry.num_boxes = static_cast<std::int64_t>(examples->second.labels.size());
    geometry.boxes = examples->second.boxes.data();
    geometry.box_labels = examples->second.labels.data();
    geometry.fractions = examples->second.fractions;
  }
  return FrameDetector{detector.heads, side, config_.nms}.detect(
      ctx, frame.detector,
      {phrase.tokens, phrase.padding.get(), geometric_prompt(ctx, geometry, *video_->orig_hw())});
}

// The memory of the frame is made later, of masks that the rules have changed.
MaskletTracker::Propagated MaskletTracker::run_propagation(Context& ctx, const Step& step) {
  video_->track_masklets({.frame = step.frame, .reverse = step.reverse, .handles = obj_ids_});
  return low_res_masks(ctx, step.frame, obj_ids_);
}

MaskletTracker::Propagated MaskletTracker::low_res_masks(
    Context& ctx, std::int64_t frame, std::span<const std::int64_t> obj_ids) const {
  const std::int64_t side = video_->model().info().mask_side;
  Propagated out{.low_res_masks =
                     ctx.workspace.floats({static_cast<std::int64_t>(obj_ids.size()), side, side})};
  for (std::size_t k = 0; k < obj_ids.size(); ++k) {
    const FrameOutput& output = *video_->find_object(obj_ids[k])->tracked_output(frame);
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
                                             {propagated.low_res_masks, obj_ids_})};
  std::vector<std::int64_t>& detections = plan.association.new_detections;
  const auto count = static_cast<std::int64_t>(obj_ids_.size());
  num_dropped_ = static_cast<std::int64_t>(detections.size());
  detections =
      limit_new_detections(std::move(detections), found.scores, config_.max_num_objects - count);
  num_dropped_ -= static_cast<std::int64_t>(detections.size());
  for (std::size_t i = 0; i < detections.size(); ++i) {
    plan.new_obj_ids.push_back(step.next_obj_id + static_cast<std::int64_t>(i));
  }
  plan.hot_start =
      hot_start_.process({step.frame, step.reverse, plan.association, plan.new_obj_ids});
  return plan;
}

// What is seen clearly starts masklets anew from time to time, all of their batch with them.
// Upstream: _recondition_masklets.
void MaskletTracker::recondition(Context& ctx, const Step& step, const FrameDetections& found,
                                 const Propagated& propagated, const Plan& plan) {
  const std::int64_t every = config_.recondition_every_nth_frame;
  if (every <= 0 || step.frame % every != 0) return;
  for (const auto& [obj_id, detection] : plan.association.confident) {
    const auto place = std::find(obj_ids_.begin(), obj_ids_.end(), obj_id) - obj_ids_.begin();
    if (!(propagated.object_score_logits[at(place)] > kReconditionLogit)) continue;
    const Workspace::Scope scratch(ctx.workspace);
    video_->add_masklet(step.frame, obj_id, input_mask(ctx, found.masks.view()[detection]));
    video_->encode_pending(step.frame);
    video_->preflight();
  }
}

// Upstream: _tracker_update_memories.
void MaskletTracker::update_memories(Context& ctx, std::int64_t frame, ConstView masks) {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t size = 4 * video_->model().info().mask_side;
  const View high_res = ctx.workspace.floats({masks.shape[0], size, size});
  resize_bilinear(ctx, masks, high_res);
  suppress_shrunk_masks_(ctx, high_res);
  video_->remember_masklets(frame, obj_ids_, high_res);
}

// A mask of the detector as a prompt of the tracker: zeros and ones, at the side of the latter.
View MaskletTracker::input_mask(Context& ctx, ConstView low_res_mask) const {
  const std::int64_t size = 4 * video_->model().info().mask_side;
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
    video_->add_masklet(frame, plan.new_obj_ids[i], input_mask(ctx, found.masks.view()[detection]));
    obj_ids_.push_back(plan.new_obj_ids[i]);
    scores_[plan.new_obj_ids[i]] = found.scores[at(detection)];
  }
  video_->encode_pending(frame);
  video_->preflight();
}

// ---------------------------------------------------------------- results

// Upstream: build_outputs.
void MaskletTracker::build_outputs(Context& ctx, std::int64_t frame, const FrameDetections& found,
                                   const Propagated& propagated, const Plan& plan) {
  FrameResults results{.suppressed = plan.hot_start.suppressed};
  for (std::size_t k = 0; k < obj_ids_.size(); ++k) {
    const View mask = propagated.low_res_masks[static_cast<std::int64_t>(k)];
    results.masks[obj_ids_[k]] = video_mask(ctx, mask);
    results.tracker_scores[obj_ids_[k]] = sigmoid(propagated.object_score_logits[k]);
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
  results_[frame] = std::move(results);
}

Rle MaskletTracker::video_mask(Context& ctx, ConstView low_res_mask) const {
  const Size hw = *video_->orig_hw();
  const std::int64_t side = low_res_mask.shape[0];
  MaskSummary summary;
  summarize_masks(ctx, {low_res_mask.data},
                  {.low_height = side, .low_width = side, .height = hw.height, .width = hw.width},
                  {.frame = {.height = hw.height, .width = hw.width}}, &summary);
  return std::move(summary.rle);
}

void MaskletTracker::drop_results_before(std::int64_t frame) {
  results_.erase(results_.begin(), results_.lower_bound(frame));
}

std::vector<std::int64_t> MaskletTracker::seen(std::int64_t frame) const {
  std::vector<std::int64_t> out;
  const auto found = results_.find(frame);
  if (found == results_.end()) return out;
  for (const auto& [obj_id, mask] : found->second.masks) {
    const bool hidden = !scores_.contains(obj_id) || found->second.suppressed.contains(obj_id);
    if (!hidden && rle_area(mask) > 0) out.push_back(obj_id);
  }
  return out;
}

PixelBox MaskletTracker::box(std::int64_t frame, std::int64_t obj_id) const {
  return rle_box(results_.at(frame).masks.at(obj_id));
}

// Upstream: _postprocess_output.
void MaskletTracker::draw(std::int64_t frame, std::span<const std::int64_t> obj_ids,
                          std::uint8_t* out) {
  const FrameResults& results = results_.at(frame);
  const std::int64_t places = video_->orig_hw()->height * video_->orig_hw()->width;
  std::vector<float> scores;
  for (std::size_t k = 0; k < obj_ids.size(); ++k) {
    decode_rle(results.masks.at(obj_ids[k]), out + static_cast<std::int64_t>(k) * places);
    const auto score = results.tracker_scores.find(obj_ids[k]);
    scores.push_back(score == results.tracker_scores.end() ? 0.0F : score->second);
  }
  if (obj_ids.size() < 2) return;
  Context ctx = video_->context();
  keep_best_masklets_(ctx, out, places, scores);
}

}  // namespace sam_rlx
