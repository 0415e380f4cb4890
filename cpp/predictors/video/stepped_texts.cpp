#include "predictors/video/stepped_texts.h"

#include <algorithm>
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

// Upstream compares logits of masks with a probability's middle.
constexpr float kMarkedFrom = 0.5F;

// Zeros and ones of the logits of a mask.
void mark_mask(ConstView mask, View out) {
  std::transform(mask.data, mask.data + mask.numel(), out.data,
                 [](float logit) { return logit >= kMarkedFrom ? 1.0F : 0.0F; });
}

}  // namespace

SteppedTexts::SteppedTexts(SteppedObjects& objects, const SteppedTextsConfig& config)
    : objects_(objects), config_(config) {
  model().require_text("Sam3VideoModel");
  objects_.enable_detector();
  reset();
  state_.max_obj_id = -1;
}

void SteppedTexts::reset() {
  reset_objects();
  state_ = {.max_obj_id = 0, .hot_start = HotStart(config_.masklets.hot_start)};
  objects_.forget_frames();
}

void SteppedTexts::reset_objects() {
  objects_.reset();
  state_.obj_ids.clear();
  state_.texts.clear();
}

bool SteppedTexts::remove_object(std::int64_t obj_id) {
  const auto found = std::find(state_.obj_ids.begin(), state_.obj_ids.end(), obj_id);
  if (found == state_.obj_ids.end()) return false;
  objects_.remove_object(static_cast<std::size_t>(found - state_.obj_ids.begin()));
  state_.obj_ids.erase(found);
  state_.texts.erase(obj_id);
  if (state_.obj_ids.empty()) {
    reset_objects();
    objects_.forget_frames();
  }
  return true;
}

// ---------------------------------------------------------------- a frame

SteppedTexts::Found SteppedTexts::run(const Call& call) {
  State state = state_;
  std::vector<TrackedObject> objects = objects_.objects();
  try {
    return run_frame(call);
  } catch (...) {
    state_ = std::move(state);
    objects_.restore(std::move(objects));
    throw;
  }
}

// Upstream: _det_track_one_frame.
SteppedTexts::Found SteppedTexts::run_frame(const Call& call) {
  Context ctx = objects_.context();
  const Workspace::Scope scratch(ctx.workspace);
  const Detected detected = detect(ctx, call);
  const Tracked tracked = track(ctx, call);
  const Plan plan = make_plan(ctx, call, detected, tracked);
  update_memories(ctx, call, plan, detected, tracked);
  add_objects(ctx, call, plan, detected);
  for (const std::int64_t obj_id : plan.hot_start.removed) remove_object(obj_id);
  return build_outputs(call, plan, detected, tracked);
}

// Upstream: run_detection, and _merge_detections_from_prompts.
SteppedTexts::Detected SteppedTexts::detect(Context& ctx, const Call& call) const {
  const EncodedFrame* const frame = objects_.frame(call.frame);
  if (frame == nullptr || !frame->has_detector) {
    fail<StateError>("run", "frame " + std::to_string(call.frame) + " given before", "none");
  }
  const std::int64_t side = model().info().mask_side;
  const FrameDetector detector{.heads = *model().sam3().detector.heads,
                               .side = side,
                               .nms = config_.masklets.nms,
                               .plain_scores = true};
  Detected out;
  std::vector<Tensor> parts;
  for (const Text& text : call.texts) {
    ctx.check_interrupt();
    FrameDetections found = detector.detect(ctx, frame->detector, text.prompt);
    FrameDetections& all = out.found;
    out.texts.insert(out.texts.end(), at(found.count()), text.number);
    all.scores.insert(all.scores.end(), found.scores.begin(), found.scores.end());
    all.boxes.insert(all.boxes.end(), found.boxes.begin(), found.boxes.end());
    parts.push_back(std::move(found.masks));
  }
  out.found.masks = Tensor({out.found.count(), side, side});
  float* next = out.found.masks.data();
  for (const Tensor& part : parts) next = std::copy_n(part.data(), part.numel(), next);
  return out;
}

// Memories are made later, of masks that the rules have changed. Upstream: run_tracker_propagation.
SteppedTexts::Tracked SteppedTexts::track(Context& ctx, const Call& call) {
  const std::int64_t side = model().info().mask_side;
  const std::vector<SteppedObjects::Input> inputs(state_.obj_ids.size());
  Tracked out{.masks =
                  ctx.workspace.floats({static_cast<std::int64_t>(inputs.size()), side, side})};
  const std::vector<FrameOutputPtr> outputs = objects_.run({.frame = call.frame,
                                                            .num_frames = call.num_frames,
                                                            .reverse = call.reverse,
                                                            .remember = false,
                                                            .inputs = inputs});
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const View mask = out.masks[static_cast<std::int64_t>(k)];
    copy_(ctx, mask, outputs[k]->low_res_mask);
    if (config_.masklets.fill_hole_area > 0) {
      remove_small_components_(mask, config_.masklets.fill_hole_area);
    }
    out.logits.push_back(outputs[k]->object_score_logits);
  }
  return out;
}

// Upstream: run_tracker_update_planning_phase.
SteppedTexts::Plan SteppedTexts::make_plan(Context& ctx, const Call& call, const Detected& detected,
                                           const Tracked& tracked) {
  const FrameDetections& found = detected.found;
  const MaskletConfig& config = config_.masklets;
  ObjIds texts;
  for (const std::int64_t obj_id : state_.obj_ids) texts.push_back(state_.texts.at(obj_id));
  Plan plan{.association = associate_det_trk(
                ctx, config.association, {found.masks, found.scores, found.boxes, detected.texts},
                {tracked.masks, state_.obj_ids, texts})};
  ObjIds& detections = plan.association.new_detections;
  const auto count = static_cast<std::int64_t>(state_.obj_ids.size());
  detections =
      limit_new_detections(std::move(detections), found.scores, config.max_num_objects - count);
  for (const std::int64_t detection : detections) {
    plan.new_obj_ids.push_back(++state_.max_obj_id);
    state_.texts[state_.max_obj_id] = detected.texts[at(detection)];
    state_.scores[state_.max_obj_id] = found.scores[at(detection)];
  }
  plan.hot_start = state_.hot_start.process(
      {call.frame, call.reverse, plan.association, plan.new_obj_ids, call.streaming});
  const std::int64_t every = config.recondition_every_nth_frame;
  if (every <= 0 || call.frame % every != 0) return plan;
  for (const auto& [obj_id, detection] : plan.association.confident) {
    const auto k = std::find(state_.obj_ids.begin(), state_.obj_ids.end(), obj_id);
    const float logit = tracked.logits[static_cast<std::size_t>(k - state_.obj_ids.begin())];
    if (logit > config.association.high_conf_thresh) plan.reconditioned[obj_id] = detection;
  }
  return plan;
}

template <class Change>
void SteppedTexts::by_text(Context& ctx, View masks, const Change& change) const {
  std::map<std::int64_t, ObjIds> members;
  for (std::size_t k = 0; k < state_.obj_ids.size(); ++k) {
    members[state_.texts.at(state_.obj_ids[k])].push_back(static_cast<std::int64_t>(k));
  }
  for (const auto& [text, positions] : members) {
    const Workspace::Scope scratch(ctx.workspace);
    const auto count = static_cast<std::int64_t>(positions.size());
    const View own = ctx.workspace.floats({count, masks.shape[1], masks.shape[2]});
    ObjIds obj_ids;
    for (std::int64_t i = 0; i < count; ++i) {
      copy_(ctx, own[i], masks[positions[at(i)]]);
      obj_ids.push_back(state_.obj_ids[at(positions[at(i)])]);
    }
    change(own, obj_ids);
    for (std::int64_t i = 0; i < count; ++i) copy_(ctx, masks[positions[at(i)]], own[i]);
  }
}

// What is shown is changed, too. Upstream: _suppress_overlapping_based_on_recent_occlusion, and
// _tracker_update_memories.
void SteppedTexts::update_memories(Context& ctx, const Call& call, const Plan& plan,
                                   const Detected& detected, const Tracked& tracked) {
  const LastOccluded before = std::exchange(state_.last_occluded, {});
  if (state_.obj_ids.empty()) return;
  const float threshold = config_.masklets.suppress_overlapping_based_on_recent_occlusion_threshold;
  if (threshold > 0.0F) {
    by_text(ctx, tracked.masks, [&](View masks, const ObjIds& obj_ids) {
      state_.last_occluded.merge(suppress_recently_occluded_(ctx, masks,
                                                             {.frame_idx = call.frame,
                                                              .reverse = call.reverse,
                                                              .iou_threshold = threshold,
                                                              .obj_ids = obj_ids,
                                                              .removed = plan.hot_start.removed,
                                                              .before = before}));
    });
  }
  for (const std::int64_t obj_id : plan.hot_start.removed) state_.last_occluded.erase(obj_id);
  for (std::size_t k = 0; k < state_.obj_ids.size(); ++k) {
    const auto found = plan.reconditioned.find(state_.obj_ids[k]);
    if (found == plan.reconditioned.end()) continue;
    objects_.condition(k, call.frame);
    if (config_.recondition_on_trk_masks) continue;
    mark_mask(detected.found.masks.view()[found->second],
              tracked.masks[static_cast<std::int64_t>(k)]);
  }
  const Workspace::Scope scratch(ctx.workspace);
  const View masks = ctx.workspace.floats(tracked.masks.shape);
  copy_(ctx, masks, tracked.masks);
  by_text(ctx, masks, [&](View own, const ObjIds&) { suppress_shrunk_masks_(ctx, own); });
  objects_.remember(call.frame, masks);
}

// With new objects on a frame, those before are tracked on it once more, and their memories are
// those of an ordinary run again. Upstream: _tracker_add_new_objects.
void SteppedTexts::add_objects(Context& ctx, const Call& call, const Plan& plan,
                               const Detected& detected) {
  if (plan.new_obj_ids.empty()) return;
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t low = model().info().mask_side, side = objects_.step().side();
  std::vector<SteppedObjects::Input> inputs(state_.obj_ids.size());
  for (std::size_t i = 0; i < plan.new_obj_ids.size(); ++i) {
    const View mask = ctx.workspace.floats({1, side, side});
    {
      const Workspace::Scope inner(ctx.workspace);
      const View inside = ctx.workspace.floats({1, low, low});
      mark_mask(detected.found.masks.view()[plan.association.new_detections[i]], inside[0]);
      resize_bilinear(ctx, inside, mask);
    }
    objects_.add_object();
    state_.obj_ids.push_back(plan.new_obj_ids[i]);
    inputs.push_back({.is_new = true, .mask = mask[0]});
  }
  objects_.run({.frame = call.frame,
                .num_frames = call.num_frames,
                .reverse = call.reverse,
                .inputs = inputs});
}

// Upstream gives the masks and scores of tracking to the objects that are there afterwards, in
// their order: behind one that was removed they are those of another one. Upstream: build_outputs.
SteppedTexts::Found SteppedTexts::build_outputs(const Call& call, const Plan& plan,
                                                const Detected& detected, const Tracked& tracked) {
  Found out;
  Scores scores;
  if (const Scores* const before = state_.tracker_scores.find(call.frame)) scores = *before;
  for (const std::int64_t obj_id : plan.new_obj_ids) scores[obj_id] = state_.scores.at(obj_id);
  for (const std::int64_t obj_id : plan.hot_start.removed) {
    scores[obj_id] = state_.scores[obj_id] = kRemoved;
    state_.removed.insert(obj_id);
  }
  for (std::size_t k = 0; k < std::min(state_.obj_ids.size(), tracked.logits.size()); ++k) {
    const std::int64_t obj_id = state_.obj_ids[k];
    out.masks[obj_id] = Tensor::copy_of(tracked.masks[static_cast<std::int64_t>(k)]);
    scores[obj_id] = sigmoid(tracked.logits[k]);
  }
  const auto detection = [&](std::int64_t index) {
    return Tensor::copy_of(detected.found.masks.view()[index]);
  };
  for (std::size_t i = 0; i < plan.new_obj_ids.size(); ++i) {
    Tensor& mask = out.masks[plan.new_obj_ids[i]];
    mask = detection(plan.association.new_detections[i]);
    if (config_.masklets.fill_hole_area > 0) {
      remove_small_components_(mask, config_.masklets.fill_hole_area);
    }
  }
  for (const auto& [obj_id, index] : plan.reconditioned) out.masks[obj_id] = detection(index);

  std::set<std::int64_t> suppressed = plan.hot_start.suppressed;
  if (const auto* const before = state_.suppressed.find(call.frame)) {
    suppressed.insert(before->begin(), before->end());
  }
  out.tracker_scores = scores;
  out.suppressed = suppressed;
  state_.tracker_scores.set(call.frame, std::move(scores));
  state_.suppressed.set(call.frame, std::move(suppressed));
  return out;
}

}  // namespace sam_rlx
