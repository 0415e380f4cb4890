#include "predictors/video/object_batches.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "core/error.h"
#include "masks/overlap.h"
#include "models/sam3/memory_selection.h"
#include "ops/resize.h"
#include "ops/resize_antialias.h"

namespace sam_rlx {
namespace {

using Object = SessionState::Object;
using Bits = std::vector<std::uint8_t>;

constexpr float kMaskPromptThreshold = 0.5F;

ConstView one_map(ConstView map) { return map.reshape({1, map.shape[0], map.shape[1]}); }
View one_map(View map) { return map.reshape({1, map.shape[0], map.shape[1]}); }

// A mask of the video as upstream keeps it, +-1024, made as large as masks of tracking.
SharedTensor fit_video_mask(Context& ctx, Size orig_hw, const FrameOutput& output) {
  const Workspace::Scope scratch(ctx.workspace);
  Tensor low_res(output.low_res_mask.shape());
  const View logits = ctx.workspace.floats({1, orig_hw.height, orig_hw.width});
  std::transform(
      output.video_mask->begin(), output.video_mask->end(), logits.data,
      [](std::uint8_t bit) { return bit != 0 ? -sam2::kNoObjScore : sam2::kNoObjScore; });
  resize_bilinear_antialias(ctx, logits, one_map(low_res.view()));
  return low_res;
}

std::int64_t count_members(const SessionState& state, std::int64_t batch) {
  return std::count_if(state.objects.begin(), state.objects.end(),
                       [&](const Object& object) { return object->batch == batch; });
}

// Upstream forgets masks around a prompted frame, as prompts of later clicks, where the object is
// alone. Upstream: _clear_non_cond_mem_around_input.
void outdate_around(const sam2::MemoryBankConfig& bank, const SessionState& state, Object& object,
                    std::int64_t frame) {
  if (count_members(state, object->batch) > 1) return;
  const std::int64_t reach = bank.memory_temporal_stride_for_eval * bank.num_maskmem;
  std::vector<std::int64_t> near;
  const FrameOutputs& outputs = object->non_cond_frame_outputs;
  for (auto it = outputs.from(frame - reach); it != outputs.end(); ++it) {
    if (it->frame > frame + reach) break;
    if (!it->value.output->is_outdated) near.push_back(it->frame);
  }
  if (near.empty()) return;
  FrameOutputs& target = object.write().non_cond_frame_outputs;
  for (const std::int64_t t : near) {
    target.change(t, [](FrameOutput& output) { output.is_outdated = true; });
  }
}

// The score of a tracked frame is that of the batch. Upstream: Sam3TrackerBase.track_step.
void score_frame(std::span<Object* const> batch, std::int64_t frame) {
  std::vector<Object*> members;
  std::vector<sam3::ObjectScore> scores;
  bool was_prompted = false;
  for (Object* const object : batch) {
    const FrameOutput* const output = (*object)->non_cond_frame_outputs.find(frame);
    if (output == nullptr) continue;
    if (members.empty()) was_prompted = output->was_prompted;
    members.push_back(object);
    scores.push_back({output->object_score_logits, output->iou_prediction});
  }
  if (scores.empty()) return;
  const float score =
      was_prompted ? sam3::cal_prompted_mem_score(scores) : sam3::cal_mem_score(scores);
  for (Object* const object : members) {
    object->write().non_cond_frame_outputs.change(
        frame, [&](FrameOutput& output) { output.eff_iou_score = score; });
  }
}

// When an object is removed, the scores of frames, which are those of the batch, change; frames
// that lose their only prompts get a score. Upstream: remove_object.
void score_batch(std::span<Object* const> batch) {
  std::set<std::int64_t> frames;
  for (Object* const object : batch) {
    for (const auto& [frame, value] : (*object)->non_cond_frame_outputs) {
      const FrameOutput& output = *value.output;
      if (output.eff_iou_score >= 0.0F || output.was_prompted) frames.insert(frame);
    }
  }
  for (const std::int64_t frame : frames) score_frame(batch, frame);
}

}  // namespace

std::vector<Object*> ObjectBatches::members_of(SessionState& state, std::int64_t batch) {
  std::vector<Object*> members;
  for (Object& object : state.objects) {
    if (object->batch == batch) members.push_back(&object);
  }
  return members;
}

ObjectBatches::ObjectBatches(const ObjectStep& step) : ObjectRules(step) {
  if (!step.options().add_all_frames_to_correct_as_cond) {
    fail<UnsupportedError>("add_all_frames_to_correct_as_cond", "true with SAM 3", "false");
  }
}

// ---------------------------------------------------------------- masks as prompts

// The object's pointer comes from the mask at the side that the mask downsampler wants, with soft
// edges. Upstream: add_new_mask.
FrameOutput ObjectBatches::run_mask(Context& ctx, const EncodedFrame& frame, Size hw,
                                    ConstView mask) const {
  const auto resized_to = [&](std::int64_t height, std::int64_t width) -> ConstView {
    if (mask.shape == Shape{height, width}) return mask;
    const View resized = ctx.workspace.floats({1, height, width});
    resize_bilinear_antialias(ctx, one_map(mask), resized);
    return resized[0];
  };
  const std::int64_t size = 4 * step().model().info().mask_side;
  const ConstView input = resized_to(size, size), shown = resized_to(hw.height, hw.width);
  FrameOutput output = step().run_mask(ctx, frame, input);
  Bits bits(static_cast<std::size_t>(shown.numel()));
  std::transform(shown.data, shown.data + shown.numel(), bits.begin(),
                 [](float value) { return value > kMaskPromptThreshold ? 1 : 0; });
  output.video_mask = std::make_shared<const Bits>(std::move(bits));
  return output;
}

// Where one mask was given, those given for other objects end.
void ObjectBatches::mask_given(SessionState& state, Object& object, std::int64_t frame) const {
  const Bits& mask = *object->temp_cond.find(frame)->video_mask;
  for (Object* const other : members_of(state, object->batch)) {
    const FrameOutput* const output = (*other)->temp_cond.find(frame);
    if (other == &object || output == nullptr || output->video_mask == nullptr) continue;
    Bits rest = *output->video_mask;
    std::transform(mask.begin(), mask.end(), rest.begin(), rest.begin(),
                   [](std::uint8_t given, std::uint8_t before) {
                     return static_cast<std::uint8_t>(given != 0 ? 0 : before);
                   });
    other->write().temp_cond.change(frame, [&](FrameOutput& changed) {
      changed.video_mask = std::make_shared<const Bits>(std::move(rest));
      changed.maskmem_features = {};
    });
  }
}

// ---------------------------------------------------------------- before tracking

void ObjectBatches::encode_prompts(Context& ctx, SessionState& state,
                                   const EncodedFrame& frame) const {
  std::set<std::int64_t> batches;
  for (const Object& object : state.objects) {
    const FrameOutput* const output = object->temp_cond.find(frame.index);
    if (output != nullptr && !output->has_memory()) batches.insert(object->batch);
  }
  for (const std::int64_t batch : batches) encode_batch(ctx, state, frame, batch);
}

// All objects with an output on a frame that was prompted for one of them are conditioned on it.
// Those that were never there stay as they are; upstream fails. Upstream:
// _consolidate_temp_output_across_obj.
void ObjectBatches::encode_batch(Context& ctx, SessionState& state, const EncodedFrame& frame,
                                 std::int64_t batch) const {
  const Workspace::Scope scratch(ctx.workspace);
  std::vector<Conditioned> objects;
  for (Object* const object : members_of(state, batch)) {
    if (const FrameOutput* const prompted = (*object)->temp_cond.find(frame.index)) {
      objects.push_back({.object = object, .output = *prompted});
    } else if (const FrameOutput* const tracked = (*object)->tracked_output(frame.index)) {
      objects.push_back({.object = object,
                         .output = {.obj_ptr = tracked->obj_ptr,
                                    .low_res_mask = tracked->low_res_mask,
                                    .object_score_logits = tracked->object_score_logits,
                                    .iou_prediction = tracked->iou_prediction}});
    }
  }

  separate_masks(objects);

  const auto count = static_cast<std::int64_t>(objects.size());
  const View high_res = ctx.workspace.floats({count, step().side(), step().side()});
  for (std::int64_t i = 0; i < count; ++i) {
    Conditioned& one = objects[static_cast<std::size_t>(i)];
    if (one.output.video_mask != nullptr) {
      one.output.low_res_mask = fit_video_mask(ctx, *state.orig_hw, one.output);
    }
    resize_bilinear(ctx, one_map(one.output.low_res_mask.view()), one_map(high_res[i]));
    one.mask = high_res[i];
  }
  apply_non_overlapping_constraints_(ctx, high_res);
  condition(ctx, state, frame, objects);
}

void ObjectBatches::condition(Context& ctx, SessionState& /*state*/, const EncodedFrame& frame,
                              std::span<Conditioned> objects) const {
  for (Conditioned& one : objects) {
    ctx.check_interrupt();
    one.output.maskmem_features =
        step().encode_memory(ctx, frame,
                             {.mask = one.mask,
                              .object_score_logits = one.output.object_score_logits,
                              .from_prompt = true});
    one.object->write().temp_cond.set(frame.index, std::move(one.output));
  }
}

// New objects make a new batch from here on, and new prompts end what was known around them.
// Upstream: propagate_in_video_preflight.
void ObjectBatches::before_tracking(SessionState& state) const {
  const bool is_open =
      std::any_of(state.objects.begin(), state.objects.end(),
                  [&](const Object& object) { return object->batch == state.open_batch; });
  if (is_open) ++state.open_batch;
  for (Object& object : state.objects) {
    if (object->temp_cond.empty()) continue;
    FrameOutputs ascending;
    for (const auto& [frame, value] : object->temp_cond) {
      FrameOutput output = *value.output;
      output.video_mask = nullptr;
      ascending.set(frame, std::move(output));
    }
    object.write().temp_cond = std::move(ascending);
    for (const auto& entry : object->temp_cond) prompt_passed(state, object, entry.frame);
  }
}

void ObjectBatches::prompt_passed(SessionState& state, Object& object, std::int64_t frame) const {
  outdate_around(step().memory_bank(), state, object, frame);
}

void ObjectBatches::tracked(SessionState& state, std::span<const std::int64_t> handles,
                            std::int64_t frame) const {
  if (!step().options().use_memory_selection) return;
  std::set<std::int64_t> batches;
  for (const std::int64_t handle : handles) batches.insert((*state.find(handle))->batch);
  for (const std::int64_t batch : batches) score_frame(members_of(state, batch), frame);
}

// ---------------------------------------------------------------- prompts that go

// A frame without any prompt conditions nothing. Upstream: clear_all_points_in_frame.
void ObjectBatches::downgrade_batch(SessionState& state, std::int64_t batch,
                                    std::int64_t frame) const {
  const std::vector<Object*> members = members_of(state, batch);
  const auto is_prompted = [&](const Object* object) { return (*object)->is_prompted(frame); };
  if (std::any_of(members.begin(), members.end(), is_prompted)) return;
  std::vector<Object*> all = members;
  for (Object& bucket : state.buckets) {
    if (bucket->batch == batch) all.push_back(&bucket);
  }
  for (Object* const object : all) {
    TrackedObject& target = object->write();
    target.temp_cond.erase(frame);
    target.downgrade(frame);
  }
  const auto has_prompt = [](const Object* object) { return (*object)->has_prompt(); };
  if (std::any_of(members.begin(), members.end(), has_prompt)) return;
  for (Object* const object : all) {
    object->write().non_cond_frame_outputs.clear();
    object->write().frames_tracked.clear();
  }
}

void ObjectBatches::prompts_cleared(SessionState& state, Object& object, std::int64_t frame) const {
  downgrade_batch(state, object->batch, frame);
}

void ObjectBatches::remove(SessionState& state, std::int64_t handle) const {
  Object& object = *state.find(handle);
  const std::int64_t batch = object->batch;
  for (const std::int64_t frame : object->prompted_frames()) {
    object.write().clear_prompts(frame);
    downgrade_batch(state, batch, frame);
  }
  std::erase_if(state.objects, [&](const Object& one) { return one->handle == handle; });
  if (step().options().use_memory_selection) score_batch(members_of(state, batch));
}

}  // namespace sam_rlx
