#include "predictors/video/tracked_objects.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/error.h"
#include "predictors/image/image_predictor.h"

namespace sam_rlx {
namespace {

bool has_added(const TrackedObject& object) {
  const FrameOutputs& outputs = object.cond_frame_outputs;
  return std::any_of(outputs.begin(), outputs.end(),
                     [](const auto& entry) { return entry.value.output->is_added; });
}

std::string pixels(Size size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width) + " pixels";
}

}  // namespace

TrackedObjects::TrackedObjects(std::shared_ptr<const Model> model, int num_threads,
                               const VideoOptions& options, std::optional<std::int64_t> num_frames)
    : step_(std::move(model), options, num_frames),
      rules_(ObjectRules::make(step_)),
      num_threads_(checked_num_threads(num_threads)) {}

Context TrackedObjects::context() {
  return {.kernels = model().kernels(),
          .workspace = workspace_,
          .num_threads = num_threads_,
          .trace = trace_,
          .poll_interrupt = poll_interrupt_};
}

// ---------------------------------------------------------------- frames

bool TrackedObjects::has_frame(std::int64_t index) const {
  const EncodedFrame* const frame = state_.frames.peek(index);
  return frame != nullptr && (frame->has_detector || !state_.with_detector);
}

void TrackedObjects::set_frame(std::int64_t index, const ImageView& image,
                               std::optional<Size> orig_hw) {
  const std::string where = "frame " + std::to_string(index);
  const Size size = orig_hw.value_or(Size{image.height, image.width});
  const std::int64_t count = step_.num_frames().value_or(sam2::kMaxFrames);
  if (index < 0 || index >= count) {
    fail(where, "0 to " + std::to_string(count - 1), std::to_string(index));
  }
  check_size(where, size);
  if (state_.orig_hw && size != *state_.orig_hw) {
    fail(where, pixels(*state_.orig_hw) + " as in the first frame", pixels(size));
  }
  if (has_frame(index)) return;
  Context ctx = context();
  EncodedFramePtr frame = pool_.take();
  step_.encode(ctx, image, state_.with_detector, *frame);
  frame->index = index;
  state_.frames.adopt(std::move(frame));
  state_.orig_hw = size;
}

EncodedFrame& TrackedObjects::cached_frame(std::int64_t index, const char* where) {
  if (EncodedFrame* const frame = state_.frames.find(index)) return *frame;
  fail<StateError>(where, "frame " + std::to_string(index) + " given before", "none");
}

// ---------------------------------------------------------------- objects

SessionState::Object& TrackedObjects::known_object(std::int64_t handle, const char* where) {
  if (SessionState::Object* const object = state_.find(handle)) return *object;
  fail(where, "an object with prompts", "object " + std::to_string(handle));
}

TrackedObject& TrackedObjects::object_of(std::int64_t handle, const ObjectRules::Arrival& arrival,
                                         std::int64_t owner) {
  SessionState::Object* object = state_.find(handle);
  if (object == nullptr) {
    object = &state_.objects.emplace_back(TrackedObject{.handle = handle, .owner = owner});
  }
  TrackedObject& target = object->write();
  if (!target.has_slot()) rules_->join(state_, target, arrival);
  return target;
}

void TrackedObjects::remove(std::int64_t handle) {
  known_object(handle, "remove_object");
  rules_->remove(state_, handle);
}

void TrackedObjects::reset() {
  state_.objects.clear();
  state_.buckets.clear();
  state_.open_batch = 0;
}

void TrackedObjects::adopt(std::vector<SessionState::Object> objects,
                           std::vector<SessionState::Object> buckets, std::optional<Size> orig_hw) {
  state_.objects = std::move(objects);
  state_.buckets = std::move(buckets);
  state_.orig_hw = orig_hw;
  state_.open_batch = 0;
  for (const auto& object : state_.objects) {
    state_.open_batch = std::max(state_.open_batch, object->batch + 1);
  }
}

// ---------------------------------------------------------------- prompts

// Upstream's order of operations, in float32: to 0 ... 1, to the model's side, half a pixel.
ClickedPoints TrackedObjects::to_model_frame(const PointPrompt& prompt) const {
  ClickedPoints points;
  points.labels.assign(prompt.labels.begin(), prompt.labels.end());
  const Size hw = *state_.orig_hw;
  const float size[2] = {static_cast<float>(hw.width), static_cast<float>(hw.height)};
  for (std::size_t i = 0; i < prompt.coords.size(); ++i) {
    float value = static_cast<float>(prompt.coords[i]);
    if (prompt.normalize_coords) value /= size[i % 2];
    value *= static_cast<float>(step_.side());
    points.coords.push_back(static_cast<double>(value + 0.5F));
  }
  return points;
}

// Those of before stay in front if the prompt says so.
ClickedPoints TrackedObjects::all_points(const PointPrompt& prompt,
                                         const TrackedObject& object) const {
  ClickedPoints points = to_model_frame(prompt);
  const ClickedPoints* const old = object.points.find(prompt.frame);
  if (!prompt.clear_old_points && old != nullptr) {
    points.coords.insert(points.coords.begin(), old->coords.begin(), old->coords.end());
    points.labels.insert(points.labels.begin(), old->labels.begin(), old->labels.end());
  }
  const std::size_t most = step_.rules().max_points, count = points.labels.size();
  if (most > 0 && count > most) {
    const auto cut = [&](auto& values, std::size_t width) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(width * (most / 2));
      const auto last = values.end() - static_cast<std::ptrdiff_t>(width * (most - most / 2));
      values.erase(first, last);
    };
    cut(points.coords, 2);
    cut(points.labels, 1);
  }
  return points;
}

bool TrackedObjects::add_points(const PointPrompt& prompt) {
  EncodedFrame& frame = cached_frame(prompt.frame, "add_prompt");
  const TrackedObject unknown;
  const TrackedObject* const known = find(prompt.handle);
  const TrackedObject& object = known != nullptr ? *known : unknown;

  ClickedPoints points = all_points(prompt, object);
  const bool* const tracked = object.frames_tracked.find(prompt.frame);
  const bool is_init_cond_frame = tracked == nullptr;
  const bool is_cond = is_init_cond_frame || options().add_all_frames_to_correct_as_cond;

  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const ObjectStep::Target target{
      .frame = frame,
      .object = object,
      .is_init_cond_frame = is_init_cond_frame || !step_.rules().clicks_see_memory,
      .reverse = !is_init_cond_frame && *tracked};
  const FrameOutput* before = object.latest_output(prompt.frame, is_cond);
  if (before != nullptr && (before->is_outdated || before->video_mask != nullptr)) before = nullptr;
  // In SAM 3.1 the first click on a frame begins anew.
  const bool corrects = tracked != nullptr && object.temp_cond.find(prompt.frame) != nullptr;
  if (step_.multiplex() != nullptr && !corrects) before = nullptr;
  FrameOutput output = step_.run_points(ctx, target, &points, before);

  TrackedObject& changed = object_of(prompt.handle, {.frame = prompt.frame});
  changed.points.set(prompt.frame, std::move(points));
  changed.mask_frames.erase(prompt.frame);
  (is_cond ? changed.temp_cond : changed.temp_non_cond).set(prompt.frame, std::move(output));
  return is_cond;
}

bool TrackedObjects::add_mask(std::int64_t index, std::int64_t handle, ConstView mask) {
  return show_mask(index, handle, mask, {.frame = index}, TrackedObject::kPrompts);
}

bool TrackedObjects::show_mask(std::int64_t index, std::int64_t handle, ConstView mask,
                               const ObjectRules::Arrival& arrival, std::int64_t owner) {
  const EncodedFrame& frame = cached_frame(index, "add_prompt");
  const TrackedObject* const known = find(handle);
  const bool is_cond = options().add_all_frames_to_correct_as_cond || known == nullptr ||
                       !known->frames_tracked.contains(index);
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  FrameOutput output = rules_->run_mask(ctx, frame, *state_.orig_hw, mask);

  TrackedObject& changed = object_of(handle, arrival, owner);
  changed.mask_frames.insert(index);
  changed.points.erase(index);
  (is_cond ? changed.temp_cond : changed.temp_non_cond).set(index, std::move(output));
  rules_->mask_given(state_, *state_.find(handle), index);
  return is_cond;
}

void TrackedObjects::clear_prompts(std::int64_t frame, std::int64_t handle) {
  SessionState::Object& object = known_object(handle, "clear_prompts");
  object.write().clear_prompts(frame);
  rules_->prompts_cleared(state_, object, frame);
}

bool TrackedObjects::has_new_prompt(std::int64_t frame) const {
  return std::any_of(state_.objects.begin(), state_.objects.end(),
                     [&](const auto& object) { return object->temp_cond.find(frame) != nullptr; });
}

// ---------------------------------------------------------------- before tracking

std::vector<std::int64_t> TrackedObjects::pending_frames() const {
  std::set<std::int64_t> frames;
  for (const auto& object : state_.objects) {
    for (const FrameOutputs* outputs : {&object->temp_cond, &object->temp_non_cond}) {
      for (const auto& [frame, value] : *outputs) {
        if (!value.output->has_memory()) frames.insert(frame);
      }
    }
  }
  return {frames.begin(), frames.end()};
}

void TrackedObjects::encode_pending(std::int64_t index) {
  const EncodedFrame& frame = cached_frame(index, "propagate");
  Context ctx = context();
  rules_->encode_prompts(ctx, state_, frame);
}

// Upstream: propagate_in_video_preflight.
void TrackedObjects::preflight() {
  if (!pending_frames().empty()) {
    fail<StateError>("propagate", "memory of all frames with prompts", "one without");
  }
  rules_->before_tracking(state_);
  for (auto& object : state_.objects) {
    if (object->temp_cond.empty() && object->temp_non_cond.empty()) continue;
    TrackedObject& target = object.write();
    for (const auto& [frame, value] : target.temp_non_cond) {
      if (!target.keeps_output(frame)) target.cond_frame_outputs.erase(frame);
      target.non_cond_frame_outputs.set(frame, value.output);
    }
    for (const std::int64_t frame : target.temp_cond.frames_by_arrival()) {
      target.cond_frame_outputs.set(frame, target.temp_cond.take(frame));
    }
    target.temp_non_cond.clear();
    for (const auto& entry : target.cond_frame_outputs) {
      target.non_cond_frame_outputs.erase(entry.frame);
    }
  }
}

// ---------------------------------------------------------------- tracking

std::vector<std::int64_t> TrackedObjects::prompted_handles(const HandleSet* only) const {
  std::vector<std::int64_t> handles;
  for (const auto& object : state_.objects) {
    if (object->is_masklet || (only != nullptr && !only->contains(object->handle))) continue;
    handles.push_back(object->handle);
  }
  return handles;
}

bool TrackedObjects::needs_frame(std::int64_t index, const HandleSet* only) const {
  const std::vector<std::int64_t> handles = prompted_handles(only);
  return std::any_of(handles.begin(), handles.end(),
                     [&](std::int64_t handle) { return !find(handle)->keeps_output(index); });
}

void TrackedObjects::track(std::int64_t index, bool reverse, const HandleSet* only) {
  const std::vector<std::int64_t> handles = prompted_handles(only);
  track_objects({.frame = index, .reverse = reverse, .handles = handles, .run_mem_encoder = true});
}

void TrackedObjects::track_objects(const TrackStep& step) {
  Context ctx = context();
  for (const std::int64_t handle : step.handles) {
    SessionState::Object& object = known_object(handle, "propagate");
    if (has_added(*object)) object.write().forget_added(step.frame, step.reverse);
  }
  std::vector<FrameOutputPtr> outputs = rules_->track(
      ctx, state_, step, [&]() -> EncodedFrame& { return cached_frame(step.frame, "propagate"); });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    SessionState::Object& object = *state_.find(step.handles[i]);
    TrackedObject& target = object.write();
    if (outputs[i] != nullptr) {
      const bool is_added = outputs[i]->is_added;
      if (is_added) target.non_cond_frame_outputs.erase(step.frame);
      (is_added ? target.cond_frame_outputs : target.non_cond_frame_outputs)
          .set(step.frame, std::move(outputs[i]));
    } else {
      rules_->prompt_passed(state_, object, step.frame);
    }
    target.frames_tracked.set(step.frame, step.reverse);
  }
  rules_->tracked(state_, step.handles, step.frame);
  for (const std::int64_t handle : step.handles) {
    drop_old_outputs(state_.find(handle)->write(), step.frame);
  }
  for (SessionState::Object& bucket : state_.buckets) drop_old_outputs(bucket.write(), step.frame);
}

// Tracked frames that a later frame can choose, when tracking goes on from here or starts anew at a
// frame with prompts.
std::set<std::int64_t> TrackedObjects::frames_to_choose(const TrackedObject& object,
                                                        std::int64_t frame) const {
  std::set<std::int64_t> frames;
  const auto add_around = [&](std::int64_t start) {
    for (const bool reverse : {false, true}) {
      if (reverse && options().streaming) continue;
      const std::vector<std::int64_t> chosen =
          step_.far_frames(object, reverse ? start - 1 : start + 1, reverse);
      frames.insert(chosen.begin(), chosen.end());
    }
  };
  add_around(frame);
  if (options().streaming) return frames;
  for (const auto& [start, value] : object.cond_frame_outputs) {
    if (!value.output->is_added) add_around(start);
  }
  return frames;
}

// Keeps outputs that a later frame can read, and those that a correction would.
void TrackedObjects::drop_old_outputs(TrackedObject& object, std::int64_t frame) const {
  if (options().history < 0) return;
  const sam2::MemoryBankConfig& bank = step_.memory_bank();
  const std::int64_t reach =
      std::max((bank.num_maskmem - 1) * bank.memory_temporal_stride_for_eval + 1,
               bank.max_obj_ptrs_in_encoder - 1);
  const std::int64_t kept = std::max(options().history, reach);
  const std::set<std::int64_t> chosen = frames_to_choose(object, frame);
  const auto is_near_prompt = [&](std::int64_t t) {
    if (options().streaming) return false;
    auto next = object.cond_frame_outputs.from(t - reach);
    while (next != object.cond_frame_outputs.end() && next->value.output->is_added) ++next;
    return next != object.cond_frame_outputs.end() && next->frame <= t + reach;
  };
  const auto is_old = [&](std::int64_t t) {
    return std::abs(t - frame) > kept && !is_near_prompt(t) && !chosen.contains(t);
  };
  object.non_cond_frame_outputs.erase_if(is_old);
  for (const std::int64_t t : object.cond_frame_outputs.frames_by_arrival()) {
    if (!object.keeps_output(t) && is_old(t)) object.cond_frame_outputs.erase(t);
  }
  if (!options().streaming) return;
  object.frames_tracked.erase_before(frame);
  object.points.erase_before(frame);
  object.mask_frames.erase_before(frame);
}

// ---------------------------------------------------------------- objects that texts name

void TrackedObjects::enable_detector() {
  model().require_text("add_text");
  state_.with_detector = true;
}

const EncodedFrame& TrackedObjects::frame_for_detector(std::int64_t index) {
  if (has_frame(index)) return *state_.frames.find(index);
  fail<StateError>("propagate", "frame " + std::to_string(index) + " given before", "none");
}

void TrackedObjects::add_masklet(const Masklet& masklet, ConstView mask) {
  show_mask(masklet.frame, masklet.handle, mask,
            {.frame = masklet.frame, .together = masklet.together}, masklet.owner);
  give_to_text(masklet.handle);
}

void TrackedObjects::give_to_text(std::int64_t handle) {
  known_object(handle, "add_prompt").write().is_masklet = true;
}

void TrackedObjects::track_masklets(const TrackStep& step) { track_objects(step); }

void TrackedObjects::remember_masklets(std::int64_t index, std::span<const std::int64_t> handles,
                                       ConstView masks) {
  const EncodedFrame& frame = cached_frame(index, "propagate");
  for (const std::int64_t handle : handles) known_object(handle, "propagate");
  Context ctx = context();
  rules_->remember(ctx, state_, frame, handles, masks);
}

// ---------------------------------------------------------------- outputs

std::vector<TrackedObjects::Shown> TrackedObjects::shown(std::int64_t frame, Source source) const {
  std::vector<Shown> result;
  for (const auto& object : state_.objects) {
    if (object->is_masklet) continue;
    const FrameOutput* output = nullptr;
    switch (source) {
      case Source::kTracked:
        output = object->tracked_output(frame);
        break;
      case Source::kCond:
      case Source::kCorrection:
        output = object->latest_output(frame, source == Source::kCond);
        break;
      case Source::kLatest:
        output = object->temp_cond.find(frame);
        if (output == nullptr) output = object->latest_output(frame, false);
        break;
    }
    if (output != nullptr) result.push_back({object->handle, output});
  }
  return result;
}

}  // namespace sam_rlx
