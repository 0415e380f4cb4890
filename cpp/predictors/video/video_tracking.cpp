#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "core/error.h"
#include "masks/overlap.h"
#include "masks/small_regions.h"
#include "models/sam3/memory_selection.h"
#include "ops/elementwise.h"
#include "ops/resize_antialias.h"
#include "predictors/video/video_session.h"

namespace sam_rlx {
namespace {

// A mask prompt of another size is resized, and is one from here on. Upstream: add_new_mask.
constexpr float kMaskPromptThreshold = 0.5F;
}  // namespace

// ---------------------------------------------------------------- one frame, one object

// Tracked frames of an object that are worth remembering on another one.
std::vector<std::int64_t> VideoSession::choose_frames(const TrackedObject& object,
                                                      std::int64_t frame, bool reverse) const {
  std::vector<sam3::ScoredFrame> tracked;
  for (const auto& [t, output] : object.non_cond_frame_outputs) {
    tracked.push_back({t, output->eff_iou_score});
  }
  return sam3::frame_filter(
      {.frame_idx = frame,
       .num_frames = num_frames_.value_or(sam2::kMaxFrames),
       .track_in_reverse = reverse,
       .max_obj_ptrs_in_encoder = heads().config.memory_bank.max_obj_ptrs_in_encoder},
      tracked);
}

sam2::MemoryChoice VideoSession::choose_memory(const Step& step) const {
  const std::vector<std::int64_t> cond = step.object.cond_frames();
  const std::vector<std::int64_t> non_cond = step.object.non_cond_frames();
  std::vector<std::int64_t> chosen;
  sam2::MemoryQuery query{.frame_idx = step.frame.index,
                          .num_frames = num_frames_.value_or(sam2::kMaxFrames),
                          .track_in_reverse = step.reverse,
                          .cond_frames = cond,
                          .non_cond_frames = non_cond};
  if (options_.use_memory_selection) {
    chosen = choose_frames(step.object, step.frame.index, step.reverse);
    query.chosen_frames = chosen;
  }
  return sam2::select_memory(heads().config.memory_bank, query);
}

// Features of the frame with what the object left behind on others.
View VideoSession::condition(Context& ctx, const Step& step) {
  EncodedFrame& frame = step.frame;
  const Tensor& embedding = frame.features.embedding;
  if (step.is_init_cond_frame) return heads().add_no_mem_embed(ctx, embedding);
  const sam2::MemoryChoice choice = choose_memory(step);
  if (choice.maps.empty() && choice.pointers.empty()) {
    return heads().add_no_mem_embed(ctx, embedding);
  }
  if (!frame.has_begun) {
    const Workspace::Scope scratch(ctx.workspace);
    const Shape positions{embedding.shape().rows(), embedding.shape().last()};
    const ConstView encoding = front_end_->vision_pos_enc();
    const View begun = heads().memory_attention.begin(ctx, embedding.view().reshape(positions),
                                                      encoding.reshape(positions));
    if (frame.begun.shape() != positions) frame.begun = Tensor(positions);
    copy_(ctx, frame.begun, begun);
    frame.has_begun = true;
  }
  const sam2::MemoryLookup lookup = [&](std::int64_t index, bool conditioning) {
    const FrameOutput& output = conditioning ? *step.object.cond_frame_outputs.find(index)
                                             : *step.object.non_cond_frame_outputs.at(index);
    return sam2::FrameMemory{.maskmem_features = output.maskmem_features,
                             .obj_ptr = output.obj_ptr};
  };
  return heads().prepare_memory_conditioned_features(ctx, frame.begun, maskmem_pos_enc_, choice,
                                                     lookup);
}

VideoSession::OutputShapes VideoSession::output_shapes() const {
  const sam2::HeadsConfig& config = heads().config;
  const std::int64_t g = config.base.grid();
  return {{g, g, config.mem_dim()}, {config.hidden_dim()}, {4 * g, 4 * g}};
}

FrameOutputPtr VideoSession::keep(const sam2::SamOutputs& outputs) const {
  FrameOutputPtr output = std::make_unique<FrameOutput>();
  Tensor low_res = Tensor::copy_of(outputs.low_res_mask);
  if (options_.fill_hole_area > 0 && !rules().fill_video_masks) {
    fill_holes_(low_res, options_.fill_hole_area);
  }
  output->low_res_mask = std::move(low_res);
  output->obj_ptr = Tensor::copy_of(outputs.obj_ptr);
  output->object_score_logits = outputs.object_score_logits;
  output->iou_prediction = outputs.iou_prediction;
  return output;
}

void VideoSession::keep_memory(Context& ctx, const EncodedFrame& frame, ConstView mask,
                               bool from_prompt, FrameOutput& output) {
  const Workspace::Scope scratch(ctx.workspace);
  const View features =
      heads().encode_new_memory(ctx, {.pix_feat = frame.features.embedding,
                                      .mask = mask,
                                      .object_score_logits = output.object_score_logits,
                                      .is_mask_from_pts = from_prompt});
  if (options_.bfloat16_memory) round_to_bfloat16_(features);
  output.maskmem_features = Tensor::copy_of(features);
}

FrameOutputPtr VideoSession::run_points(Context& ctx, const Step& step, const ClickedPoints& points,
                                        const FrameOutput* before) {
  const auto count = static_cast<std::int64_t>(points.labels.size());
  const View features = condition(ctx, step);
  sam::Prompt prompt{.points = points.coords.data(),
                     .labels = points.labels.data(),
                     .num_points = count,
                     .has_points = true};
  if (before != nullptr) {
    const View logits = ctx.workspace.floats(before->low_res_mask.shape());
    sam2::clamp_prompt_logits(before->low_res_mask, logits);
    prompt.mask = logits;
  }
  ctx.check_interrupt();
  return keep(heads().forward_sam_heads(
      ctx, {.backbone_features = features,
            .high_res = step.frame.features.high_res,
            .prompt = prompt,
            .multimask_output = heads().use_multimask(step.is_init_cond_frame, count)}));
}

FrameOutputPtr VideoSession::run_mask(Context& ctx, const EncodedFrame& frame, ConstView mask) {
  const std::int64_t size = side();
  if (mask.shape != Shape{size, size}) {
    const View resized = ctx.workspace.floats({1, size, size});
    resize_bilinear_antialias(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), resized);
    std::transform(resized.data, resized.data + resized.numel(), resized.data,
                   [](float value) { return value >= kMaskPromptThreshold ? 1.0F : 0.0F; });
    mask = resized[0];
  }
  return keep(
      heads().use_mask_as_output(ctx, frame.features.embedding, frame.features.high_res, mask));
}

FrameOutputPtr VideoSession::run_tracking(Context& ctx, const Step& step, bool run_mem_encoder) {
  const Workspace::Scope scratch(ctx.workspace);
  const View features = condition(ctx, step);
  ctx.check_interrupt();
  const sam2::SamOutputs outputs =
      heads().forward_sam_heads(ctx, {.backbone_features = features,
                                      .high_res = step.frame.features.high_res,
                                      .multimask_output = heads().use_multimask(false, 0)});
  FrameOutputPtr output = keep(outputs);
  // The memory is made of the mask as it was before its holes were filled.
  if (run_mem_encoder) keep_memory(ctx, step.frame, outputs.low_res_mask, false, *output);
  return output;
}

// ---------------------------------------------------------------- before tracking

std::vector<std::int64_t> VideoSession::pending_frames() const {
  std::set<std::int64_t> frames;
  for (const auto& object : state_.objects) {
    for (const OrderedOutputs* outputs : {&object->temp_cond, &object->temp_non_cond}) {
      for (const auto& [frame, output] : *outputs) {
        if (!output->has_memory()) frames.insert(frame);
      }
    }
  }
  return {frames.begin(), frames.end()};
}

void VideoSession::encode_pending(std::int64_t index) {
  const EncodedFrame& frame = cached_frame(index, "propagate");
  Context ctx = context();
  if (rules().batched) {
    std::set<std::int64_t> batches;
    for (const auto& object : state_.objects) {
      const FrameOutput* const output = object->temp_cond.find(index);
      if (output != nullptr && !output->has_memory()) batches.insert(object->batch);
    }
    for (const std::int64_t batch : batches) encode_batch(ctx, frame, batch);
    return;
  }
  for (const auto& object : state_.objects) {
    for (const OrderedOutputs* outputs : {&object->temp_cond, &object->temp_non_cond}) {
      FrameOutput* const output = outputs->find(index);
      if (output == nullptr || output->has_memory()) continue;
      ctx.check_interrupt();
      keep_memory(ctx, frame, output->low_res_mask, true, *output);
    }
  }
}

// What prompts gave becomes what tracking reads. Upstream: propagate_in_video_preflight.
void VideoSession::preflight() {
  if (!pending_frames().empty()) {
    fail<StateError>("propagate", "memory of all frames with prompts", "one without");
  }
  if (rules().batched) close_batch();
  for (const auto& object : state_.objects) {
    for (auto& [frame, output] : object->temp_non_cond.take_all()) {
      object->non_cond_frame_outputs[frame] = std::move(output);
    }
    for (auto& [frame, output] : object->temp_cond.take_all()) {
      object->cond_frame_outputs.set(frame, std::move(output));
    }
    for (const auto& entry : object->cond_frame_outputs) {
      object->non_cond_frame_outputs.erase(entry.first);
    }
  }
}

// ---------------------------------------------------------------- tracking

std::vector<TrackedObject*> VideoSession::prompted_objects(const HandleSet* only) const {
  std::vector<TrackedObject*> objects;
  for (const auto& object : state_.objects) {
    if (object->is_masklet || (only != nullptr && !only->contains(object->handle))) continue;
    objects.push_back(object.get());
  }
  return objects;
}

bool VideoSession::needs_frame(std::int64_t index, const HandleSet* only) const {
  const std::vector<TrackedObject*> objects = prompted_objects(only);
  return std::any_of(objects.begin(), objects.end(), [&](const TrackedObject* object) {
    return object->cond_frame_outputs.find(index) == nullptr;
  });
}

void VideoSession::track(std::int64_t index, bool reverse, const HandleSet* only) {
  track_objects(prompted_objects(only), index, reverse, true);
}

void VideoSession::track_objects(std::span<TrackedObject* const> objects, std::int64_t index,
                                 bool reverse, bool run_mem_encoder) {
  Context ctx = context();
  std::vector<FrameOutputPtr> outputs(objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (objects[i]->cond_frame_outputs.find(index) != nullptr) continue;
    ctx.check_interrupt();
    const Step step{
        .frame = cached_frame(index, "propagate"), .object = *objects[i], .reverse = reverse};
    outputs[i] = run_tracking(ctx, step, run_mem_encoder);
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    TrackedObject& object = *objects[i];
    if (outputs[i]) {
      object.non_cond_frame_outputs[index] = std::move(outputs[i]);
    } else if (rules().batched) {
      outdate_around(object, index);
    }
    object.frames_tracked[index] = reverse;
  }
  if (options_.use_memory_selection) {
    std::set<std::int64_t> batches;
    for (const TrackedObject* const object : objects) batches.insert(object->batch);
    for (const std::int64_t batch : batches) score_frame(batch, index);
  }
  for (TrackedObject* const object : objects) drop_old_outputs(*object, index);
}

// Tracked frames that a later frame can choose, when tracking goes on from here or starts anew at a
// frame with prompts.
std::set<std::int64_t> VideoSession::frames_to_choose(const TrackedObject& object,
                                                      std::int64_t frame) const {
  std::set<std::int64_t> frames;
  const auto add = [&](std::int64_t from, bool reverse) {
    const std::vector<std::int64_t> chosen = choose_frames(object, from, reverse);
    frames.insert(chosen.begin(), chosen.end());
  };
  std::vector<std::int64_t> starts;
  if (!options_.streaming) starts = object.cond_frames();
  starts.push_back(frame);
  for (const std::int64_t start : starts) {
    add(start + 1, false);
    if (!options_.streaming) add(start - 1, true);
  }
  return frames;
}

// Keeps outputs that a later frame can read, and those that a correction would.
void VideoSession::drop_old_outputs(TrackedObject& object, std::int64_t frame) {
  if (options_.history < 0) return;
  const sam2::MemoryBankConfig& bank = heads().config.memory_bank;
  const std::int64_t reach =
      std::max((bank.num_maskmem - 1) * bank.memory_temporal_stride_for_eval + 1,
               bank.max_obj_ptrs_in_encoder - 1);
  const std::int64_t kept = std::max(options_.history, reach);
  const std::vector<std::int64_t> cond = object.cond_frames();
  std::set<std::int64_t> chosen;
  if (options_.use_memory_selection) chosen = frames_to_choose(object, frame);
  const auto is_near_prompt = [&](std::int64_t t) {
    return !options_.streaming && std::any_of(cond.begin(), cond.end(), [&](std::int64_t c) {
      return std::abs(t - c) <= reach;
    });
  };
  for (auto it = object.non_cond_frame_outputs.begin();
       it != object.non_cond_frame_outputs.end();) {
    if (std::abs(it->first - frame) <= kept || is_near_prompt(it->first) ||
        chosen.contains(it->first)) {
      ++it;
      continue;
    }
    it = object.non_cond_frame_outputs.erase(it);
  }
  if (!options_.streaming) return;
  std::erase_if(object.frames_tracked, [&](const auto& entry) { return entry.first < frame; });
  std::erase_if(object.points, [&](const auto& entry) { return entry.first < frame; });
  std::erase_if(object.mask_frames, [&](std::int64_t t) { return t < frame; });
}

}  // namespace sam_rlx
