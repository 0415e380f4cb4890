#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "masks/overlap.h"
#include "models/sam3/memory_selection.h"
#include "ops/elementwise.h"
#include "ops/resize.h"
#include "ops/resize_antialias.h"
#include "predictors/video/video_session.h"

// Objects that run as one batch. Upstream: sam3/model/sam3_tracking_predictor.py,
// Sam3TrackerPredictor, whose inference state is a batch.

namespace sam_rlx {
namespace {

constexpr float kMaskPromptThreshold = 0.5F;

ConstView plane(ConstView map) { return map.reshape({1, map.shape[0], map.shape[1]}); }
View plane(View map) { return map.reshape({1, map.shape[0], map.shape[1]}); }

// The mask as upstream keeps it, +-1024, made as large as masks of tracking.
void fit_video_mask(Context& ctx, Size orig_hw, FrameOutput& output) {
  const Workspace::Scope scratch(ctx.workspace);
  Tensor low_res(output.low_res_mask.shape());
  const View logits = ctx.workspace.floats({1, orig_hw.height, orig_hw.width});
  std::transform(
      output.video_mask->begin(), output.video_mask->end(), logits.data,
      [](std::uint8_t bit) { return bit != 0 ? -sam2::kNoObjScore : sam2::kNoObjScore; });
  resize_bilinear_antialias(ctx, logits, plane(low_res.view()));
  output.low_res_mask = std::move(low_res);
}

}  // namespace

std::vector<TrackedObject*> VideoSession::members_of(std::int64_t batch) const {
  std::vector<TrackedObject*> members;
  for (const auto& object : state_.objects) {
    if (object->batch == batch) members.push_back(object.get());
  }
  return members;
}

// ---------------------------------------------------------------- masks as prompts

// The object's pointer comes from the mask at the side that the mask downsampler wants, with soft
// edges. Upstream: add_new_mask.
FrameOutputPtr VideoSession::run_video_mask(Context& ctx, const EncodedFrame& frame,
                                            ConstView mask) {
  const std::int64_t size = 4 * model_->info().mask_side;
  ConstView input = mask, shown = mask;
  if (mask.shape != Shape{size, size}) {
    const View resized = ctx.workspace.floats({1, size, size});
    resize_bilinear_antialias(ctx, plane(mask), resized);
    input = resized[0];
  }
  if (mask.shape != Shape{state_.orig_hw->height, state_.orig_hw->width}) {
    const View resized = ctx.workspace.floats({1, state_.orig_hw->height, state_.orig_hw->width});
    resize_bilinear_antialias(ctx, plane(mask), resized);
    shown = resized[0];
  }
  FrameOutputPtr output = keep(
      heads().use_mask_as_output(ctx, frame.features.embedding, frame.features.high_res, input));
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(shown.numel()));
  std::transform(shown.data, shown.data + shown.numel(), bits.begin(),
                 [](float value) { return value > kMaskPromptThreshold ? 1 : 0; });
  output->video_mask = std::make_shared<const std::vector<std::uint8_t>>(std::move(bits));
  return output;
}

// Where one mask was given, those given for other objects end.
void VideoSession::erase_from_others(const TrackedObject& object, std::int64_t frame) {
  const std::vector<std::uint8_t>& mask = *object.temp_cond.find(frame)->video_mask;
  for (TrackedObject* const other : members_of(object.batch)) {
    FrameOutput* const output = other->temp_cond.find(frame);
    if (other == &object || output == nullptr || output->video_mask == nullptr) continue;
    std::vector<std::uint8_t> rest = *output->video_mask;
    std::transform(mask.begin(), mask.end(), rest.begin(), rest.begin(),
                   [](std::uint8_t given, std::uint8_t before) {
                     return static_cast<std::uint8_t>(given != 0 ? 0 : before);
                   });
    output->video_mask = std::make_shared<const std::vector<std::uint8_t>>(std::move(rest));
    output->maskmem_features = {};
  }
}

// ---------------------------------------------------------------- before tracking

// All objects with an output on a frame that was prompted for one of them are conditioned on it.
// Those that were never there stay as they are; upstream fails. Upstream:
// _consolidate_temp_output_across_obj.
void VideoSession::encode_batch(Context& ctx, const EncodedFrame& frame, std::int64_t batch) {
  const Workspace::Scope scratch(ctx.workspace);
  std::vector<std::pair<TrackedObject*, FrameOutputPtr>> copies;
  std::vector<FrameOutput*> outputs;
  for (TrackedObject* const object : members_of(batch)) {
    FrameOutput* output = object->temp_cond.find(frame.index);
    if (output == nullptr) {
      const FrameOutput* const tracked = object->tracked_output(frame.index);
      if (tracked == nullptr) continue;
      FrameOutputPtr copy = std::make_unique<FrameOutput>();
      copy->low_res_mask = tracked->low_res_mask;
      copy->obj_ptr = tracked->obj_ptr;
      copy->object_score_logits = tracked->object_score_logits;
      copy->iou_prediction = tracked->iou_prediction;
      output = copy.get();
      copies.emplace_back(object, std::move(copy));
    }
    outputs.push_back(output);
  }

  const auto count = static_cast<std::int64_t>(outputs.size());
  const View high_res = ctx.workspace.floats({count, side(), side()});
  for (std::int64_t i = 0; i < count; ++i) {
    FrameOutput& output = *outputs[static_cast<std::size_t>(i)];
    if (output.video_mask != nullptr) fit_video_mask(ctx, *state_.orig_hw, output);
    resize_bilinear(ctx, plane(output.low_res_mask.view()), plane(high_res[i]));
  }
  apply_non_overlapping_constraints_(ctx, high_res);
  for (std::int64_t i = 0; i < count; ++i) {
    ctx.check_interrupt();
    keep_memory(ctx, frame, high_res[i], true, *outputs[static_cast<std::size_t>(i)]);
  }
  for (auto& [object, copy] : copies) object->temp_cond.set(frame.index, std::move(copy));
}

// New objects make a new batch from here on, and new prompts end what was known around them.
// Upstream: propagate_in_video_preflight.
void VideoSession::close_batch() {
  for (const auto& object : state_.objects) {
    if (object->batch == state_.open_batch) {
      ++state_.open_batch;
      break;
    }
  }
  for (const auto& object : state_.objects) {
    object->temp_cond.sort();
    for (const auto& [frame, output] : object->temp_cond) {
      output->video_mask = nullptr;
      outdate_around(*object, frame);
    }
  }
}

// Upstream forgets masks around a prompted frame, as prompts of later clicks, where the object is
// alone. Upstream: _clear_non_cond_mem_around_input.
void VideoSession::outdate_around(TrackedObject& object, std::int64_t frame) {
  const sam2::MemoryBankConfig& bank = heads().config.memory_bank;
  if (members_of(object.batch).size() > 1) return;
  const std::int64_t reach = bank.memory_temporal_stride_for_eval * bank.num_maskmem;
  for (const auto& [t, output] : object.non_cond_frame_outputs) {
    if (std::abs(t - frame) <= reach) output->is_outdated = true;
  }
}

// ---------------------------------------------------------------- prompts that go

// A frame without any prompt conditions nothing. Upstream: clear_all_points_in_frame.
void VideoSession::downgrade_batch(std::int64_t batch, std::int64_t frame) {
  const std::vector<TrackedObject*> members = members_of(batch);
  const auto is_prompted = [&](const TrackedObject* object) { return object->is_prompted(frame); };
  if (std::any_of(members.begin(), members.end(), is_prompted)) return;
  for (TrackedObject* const object : members) {
    object->temp_cond.take(frame);
    object->downgrade(frame);
  }
  const auto has_prompt = [](const TrackedObject* object) { return object->has_prompt(); };
  if (std::any_of(members.begin(), members.end(), has_prompt)) return;
  for (TrackedObject* const object : members) {
    object->non_cond_frame_outputs.clear();
    object->frames_tracked.clear();
  }
}

void VideoSession::leave_batch(TrackedObject& object) {
  std::set<std::int64_t> frames = object.mask_frames;
  for (const auto& entry : object.points) frames.insert(entry.first);
  for (const std::int64_t frame : frames) {
    object.clear_prompts(frame);
    downgrade_batch(object.batch, frame);
  }
}

// ---------------------------------------------------------------- memory selection

// The score of a tracked frame is that of the batch. Upstream: Sam3TrackerBase.track_step.
void VideoSession::score_frame(std::int64_t batch, std::int64_t frame) {
  std::vector<FrameOutput*> outputs;
  std::vector<sam3::ObjectScore> scores;
  for (const TrackedObject* const object : members_of(batch)) {
    const auto found = object->non_cond_frame_outputs.find(frame);
    if (found == object->non_cond_frame_outputs.end()) continue;
    outputs.push_back(found->second.get());
    scores.push_back({outputs.back()->object_score_logits, outputs.back()->iou_prediction});
  }
  if (scores.empty()) return;
  const float score = outputs.front()->was_prompted ? sam3::cal_prompted_mem_score(scores)
                                                    : sam3::cal_mem_score(scores);
  for (FrameOutput* const output : outputs) output->eff_iou_score = score;
}

// Without an object that was removed, frames are worth something else, and those whose prompts went
// with it get a score. Upstream: remove_object.
void VideoSession::score_batch(std::int64_t batch) {
  std::set<std::int64_t> frames;
  for (const TrackedObject* const object : members_of(batch)) {
    for (const auto& [frame, output] : object->non_cond_frame_outputs) {
      if (output->eff_iou_score >= 0.0F || output->was_prompted) frames.insert(frame);
    }
  }
  for (const std::int64_t frame : frames) score_frame(batch, frame);
}

}  // namespace sam_rlx
