#include "predictors/video/object_step.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "masks/overlap.h"
#include "masks/small_regions.h"
#include "ops/elementwise.h"

namespace sam_rlx {
namespace {

ConstView as_batch(ConstView map) { return map.reshape({1, map.shape[0], map.shape[1]}); }
View as_batch(View map) { return map.reshape({1, map.shape[0], map.shape[1]}); }

}  // namespace

ObjectStep::ObjectStep(std::shared_ptr<const Model> model, const VideoOptions& options,
                       std::optional<std::int64_t> num_frames)
    : model_(std::move(model)),
      options_(options),
      num_frames_(num_frames),
      front_end_(ImageFrontEnd::make(model_)) {
  // heads() raises UnsupportedError when the model cannot follow objects.
  if (!heads().config.memory && multiplex() == nullptr) {
    fail<UnsupportedError>("VideoPredictor", "a model with memory weights",
                           "an image model without them, such as transformers' Sam2Model");
  }
  if (options_.resize) front_end_->check(*options_.resize);
  if (num_frames && (*num_frames < 1 || *num_frames > sam2::kMaxFrames)) {
    fail("num_frames", "1 to " + std::to_string(sam2::kMaxFrames), std::to_string(*num_frames));
  }
  memory_rule_ = MemoryRule::make(options_, *model_, multiplex() == nullptr ? &heads() : nullptr);
  if (heads().config.memory) maskmem_pos_enc_ = heads().memory_positions();
}

bool ObjectStep::wants_squares() const {
  return !options_.resize && options_.frames == FrameKind::kClip && rules().resizes.clip_decoder;
}

void ObjectStep::encode(Context& ctx, const ImageView& image, bool with_detector,
                        EncodedFrame& frame) const {
  front_end_->encode(ctx, image, options_.resize.value_or(rules().resizes.of(options_.frames)),
                     {.clicks = &frame.features,
                      .detector = with_detector ? &frame.detector : nullptr,
                      .buckets = multiplex() != nullptr ? &frame.buckets : nullptr});
  frame.has_detector = with_detector;
  keep_bucket_map(frame);
}

void ObjectStep::encode_input(Context& ctx, ConstView input, bool with_detector,
                              EncodedFrame& frame) const {
  front_end_->encode_input(ctx, input,
                           {.clicks = &frame.features,
                            .detector = with_detector ? &frame.detector : nullptr,
                            .buckets = multiplex() != nullptr ? &frame.buckets : nullptr});
  frame.has_detector = with_detector;
  keep_bucket_map(frame);
}

// Memories keep it longer than the frame is there.
void ObjectStep::keep_bucket_map(EncodedFrame& frame) const {
  if (multiplex() != nullptr) frame.bucket_map = Tensor::copy_of(frame.buckets.embedding);
}

// ---------------------------------------------------------------- what the object attends to

MemoryRule::Query ObjectStep::query_of(const Target& target) const {
  return {.bank = memory_bank(),
          .object = target.object,
          .frame = target.frame.index,
          .reverse = target.reverse,
          .num_frames = target.frames_now.value_or(num_frames_.value_or(sam2::kMaxFrames)),
          .all_prompts_point = target.frames_now.has_value()};
}

std::vector<std::int64_t> ObjectStep::far_frames(const TrackedObject& object, std::int64_t frame,
                                                 bool reverse) const {
  return memory_rule_->far_frames({.bank = memory_bank(),
                                   .object = object,
                                   .frame = frame,
                                   .reverse = reverse,
                                   .num_frames = num_frames_.value_or(sam2::kMaxFrames)});
}

sam2::MemoryChoice ObjectStep::choose_memory(const Target& target) const {
  return memory_rule_->choose_memory(query_of(target));
}

// What does not depend on the object: made once a frame.
ConstView ObjectStep::shared_attention(Context& ctx, EncodedFrame& frame) const {
  if (frame.has_shared_attention) return frame.shared_attention;
  const Workspace::Scope scratch(ctx.workspace);
  const sam3::MultiplexTracker* const buckets = multiplex();
  const Tensor& embedding = (buckets != nullptr ? frame.buckets : frame.features).embedding;
  const Shape positions{embedding.shape().rows(), embedding.shape().last()};
  const ConstView map = embedding.view().reshape(positions);
  const ConstView encoding = front_end_->vision_pos_enc().reshape(positions);
  const View shared = buckets != nullptr ? buckets->memory_attention.begin(ctx, map, encoding)
                                         : heads().memory_attention.begin(ctx, map, encoding);
  if (frame.shared_attention.shape() != positions) frame.shared_attention = Tensor(positions);
  copy_(ctx, frame.shared_attention, shared);
  frame.has_shared_attention = true;
  return frame.shared_attention;
}

// Features of the frame with what the object left behind on others.
View ObjectStep::condition(Context& ctx, const Target& target) const {
  EncodedFrame& frame = target.frame;
  const Tensor& embedding = frame.features.embedding;
  if (target.is_init_cond_frame) return heads().add_no_mem_embed(ctx, embedding);
  const sam2::MemoryChoice choice = choose_memory(target);
  if (choice.maps.empty() && choice.pointers.empty()) {
    return heads().add_no_mem_embed(ctx, embedding);
  }
  const sam2::MemoryLookup lookup = [&](std::int64_t index, bool conditioning) {
    const FrameOutput& output =
        *(conditioning ? target.object.cond_frame_outputs : target.object.non_cond_frame_outputs)
             .find(index);
    return sam2::FrameMemory{.maskmem_features = output.maskmem_features,
                             .obj_ptr = output.obj_ptr};
  };
  return heads().prepare_memory_conditioned_features(ctx, shared_attention(ctx, frame),
                                                     maskmem_pos_enc_, choice, lookup);
}

// ---------------------------------------------------------------- one object

FrameOutput ObjectStep::output_of(const sam2::SamOutputs& outputs) const {
  Tensor low_res = Tensor::copy_of(outputs.low_res_mask);
  if (options_.fill_hole_area > 0 && !rules().fill_video_masks) {
    fill_holes_(low_res, options_.fill_hole_area);
  }
  return {.obj_ptr = Tensor::copy_of(outputs.obj_ptr),
          .low_res_mask = std::move(low_res),
          .object_score_logits = outputs.object_score_logits,
          .iou_prediction = outputs.iou_prediction};
}

SharedTensor ObjectStep::encode_memory(Context& ctx, const EncodedFrame& frame,
                                       const Seen& seen) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View features =
      heads().encode_new_memory(ctx, {.pix_feat = frame.features.embedding,
                                      .mask = seen.mask,
                                      .object_score_logits = seen.object_score_logits,
                                      .is_mask_from_pts = seen.from_prompt,
                                      .resizes_logits = seen.resizes_logits});
  if (options_.bfloat16_memory) round_to_bfloat16_(features);
  return Tensor::copy_of(features);
}

FrameOutput ObjectStep::run_points(Context& ctx, const Target& target, const ClickedPoints* points,
                                   const FrameOutput* before) const {
  const View features = condition(ctx, target);
  std::int64_t count = 0;
  sam::Prompt prompt;
  if (points != nullptr) {
    count = static_cast<std::int64_t>(points->labels.size());
    prompt = {.points = points->coords.data(),
              .labels = points->labels.data(),
              .num_points = count,
              .has_points = true};
  }
  if (before != nullptr) {
    const View logits = ctx.workspace.floats(before->low_res_mask.shape());
    sam2::clamp_prompt_logits(before->low_res_mask, logits);
    prompt.mask = logits;
  }
  ctx.check_interrupt();
  const bool multimask = heads().use_multimask(target.is_init_cond_frame, count);
  const sam2::SamOutputs outputs =
      heads().forward_sam_heads(ctx, {.backbone_features = features,
                                      .high_res = target.frame.features.high_res,
                                      .prompt = prompt,
                                      .multimask_output = multimask,
                                      .min_object_score = memory_rule_->min_object_score()});
  FrameOutput output = output_of(outputs);
  if (multimask) output.rule_state = memory_rule_->after_prompt(ctx, outputs.low_res_mask, side());
  return output;
}

FrameOutput ObjectStep::run_mask(Context& ctx, const EncodedFrame& frame, ConstView mask,
                                 bool multimask) const {
  // SAM 3.1 takes a mask as it takes points, without a memory.
  ConstView features = frame.features.embedding;
  if (multiplex() != nullptr) features = heads().add_no_mem_embed(ctx, features);
  return output_of(
      heads().use_mask_as_output(ctx, {.backbone_features = features,
                                       .high_res = frame.features.high_res,
                                       .mask = mask,
                                       .multimask_output = multimask,
                                       .min_object_score = memory_rule_->min_object_score()}));
}

FrameOutput ObjectStep::run_tracking(Context& ctx, const Target& target,
                                     bool run_mem_encoder) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View features = condition(ctx, target);
  ctx.check_interrupt();
  if (memory_rule_->sees_masks()) return run_ruled(ctx, target, features);
  const sam2::SamOutputs outputs =
      heads().forward_sam_heads(ctx, {.backbone_features = features,
                                      .high_res = target.frame.features.high_res,
                                      .multimask_output = heads().use_multimask(false, 0)});
  FrameOutput output = output_of(outputs);
  // The memory is made of the mask as it was before its holes were filled.
  if (run_mem_encoder) {
    output.maskmem_features = encode_memory(
        ctx, target.frame,
        {.mask = outputs.low_res_mask, .object_score_logits = output.object_score_logits});
  }
  return output;
}

// The same with a rule that looks at all masks. A frame that it adds is remembered as one with a
// prompt is.
FrameOutput ObjectStep::run_ruled(Context& ctx, const Target& target, View features) const {
  const std::int64_t low = 4 * features.shape[0];
  const View logits =
      ctx.workspace.floats({heads().config.mask_decoder.num_multimask_outputs, low, low});
  const FrameOutput* const before =
      target.object.tracked_output(target.frame.index - (target.reverse ? -1 : 1));
  RuleState state;
  if (before != nullptr && before->rule_state != nullptr) state = *before->rule_state;

  std::vector<float> iou_predictions;
  MemoryRule::Masks masks{.logits = logits, .side = side()};
  std::int64_t chosen = 0;
  const sam2::AllMasks all{.logits = logits, .choose = [&](std::span<const float> ious) {
                             iou_predictions.assign(ious.begin(), ious.end());
                             masks.iou_predictions = iou_predictions;
                             chosen = memory_rule_->choose_mask(ctx, masks, state);
                             return chosen;
                           }};
  const sam2::SamOutputs outputs =
      heads().forward_sam_heads(ctx, {.backbone_features = features,
                                      .high_res = target.frame.features.high_res,
                                      .multimask_output = true,
                                      .min_object_score = memory_rule_->min_object_score(),
                                      .all_masks = &all});
  FrameOutput output = output_of(outputs);
  const Size hw = *target.video_size;
  const auto at_video_size = [&](std::int64_t number) {
    std::vector<std::uint8_t> bits(static_cast<std::size_t>(hw.height * hw.width));
    const ConstView mask =
        number == chosen ? output.low_res_mask.view() : ConstView(logits[number]);
    binarize_masks(ctx, as_batch(mask), mask_geometry(hw), model_->info().mask_threshold,
                   bits.data());
    return bits;
  };
  output.is_added = memory_rule_->adds_frame({.masks = masks,
                                              .chosen = chosen,
                                              .frame = target.frame.index,
                                              .height = hw.height,
                                              .width = hw.width,
                                              .at_video_size = at_video_size},
                                             state);
  output.rule_state = std::make_shared<const RuleState>(std::move(state));
  output.maskmem_features = encode_memory(
      ctx, target.frame,
      {.mask = output.is_added ? output.low_res_mask.view() : ConstView(outputs.low_res_mask),
       .object_score_logits = output.object_score_logits,
       .from_prompt = output.is_added});
  return output;
}

// ---------------------------------------------------------------- a bucket

View ObjectStep::condition_bucket(Context& ctx, const BucketTarget& target) const {
  const TrackedObject& bucket = target.bucket;
  const ConstView map = target.frame.buckets.embedding;
  const View out = ctx.workspace.floats(map.shape);
  const Workspace::Scope scratch(ctx.workspace);
  const sam2::MemoryChoice choice =
      choose_memory({.frame = target.frame, .object = bucket, .reverse = target.reverse});
  if (choice.maps.empty()) {
    copy_(ctx, out, map);
    return out;
  }
  const sam3::BucketLookup lookup = [&](std::int64_t index, bool conditioning) {
    const FrameOutput& output =
        *(conditioning ? bucket.cond_frame_outputs : bucket.non_cond_frame_outputs).find(index);
    return sam3::BucketOutput{.image = output.image_features,
                              .maskmem_features = output.maskmem_features,
                              .obj_ptrs = output.obj_ptr};
  };
  copy_(ctx, out,
        multiplex()->prepare_memory_conditioned_features(ctx, shared_attention(ctx, target.frame),
                                                         map, choice, lookup));
  return out;
}

ObjectStep::BucketStep ObjectStep::run_bucket(Context& ctx, const BucketTarget& target,
                                              bool run_mem_encoder) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View features = condition_bucket(ctx, target);
  ctx.check_interrupt();
  const sam3::MultiplexTracker::Outputs outputs =
      multiplex()->forward_sam_heads(ctx, heads(),
                                     {.backbone_features = features,
                                      .high_res = target.frame.buckets.high_res,
                                      .slots = target.slots});
  BucketStep step;
  std::vector<sam3::MultiplexTracker::SlotMask> masks;
  std::vector<SharedTensor> obj_ptrs;
  for (std::size_t k = 0; k < target.slots.size(); ++k) {
    const auto i = static_cast<std::int64_t>(k);
    const ConstView mask = outputs.low_res_masks[i];
    step.objects.push_back(output_of({.low_res_mask = outputs.low_res_masks[i],
                                      .obj_ptr = outputs.obj_ptrs[i],
                                      .iou_prediction = outputs.iou_predictions[k],
                                      .object_score_logits = outputs.object_score_logits[k]}));
    step.objects.back().is_in_bucket = true;
    masks.push_back({.slot = target.slots[k],
                     .mask = mask,
                     .object_score_logits = outputs.object_score_logits[k]});
    obj_ptrs.push_back(step.objects.back().obj_ptr);
  }
  step.bucket = bucket_output(target.frame, masks, obj_ptrs);
  if (run_mem_encoder) {
    step.bucket.maskmem_features = encode_bucket_memory(ctx, target.frame, masks);
  }
  return step;
}

FrameOutput ObjectStep::bucket_output(const EncodedFrame& frame,
                                      std::span<const sam3::MultiplexTracker::SlotMask> masks,
                                      std::span<const SharedTensor> obj_ptrs) const {
  Tensor pointers = Tensor::zeros(bucket_shapes().obj_ptr);
  for (std::size_t k = 0; k < masks.size(); ++k) {
    const View row = pointers.view()[masks[k].slot];
    std::copy_n(obj_ptrs[k].data(), row.numel(), row.data);
  }
  return {.obj_ptr = std::move(pointers), .image_features = frame.bucket_map};
}

FrameOutput ObjectStep::encode_bucket(Context& ctx, const EncodedFrame& frame,
                                      std::span<const sam3::MultiplexTracker::SlotMask> masks,
                                      std::span<const SharedTensor> obj_ptrs) const {
  FrameOutput output = bucket_output(frame, masks, obj_ptrs);
  output.maskmem_features = encode_bucket_memory(ctx, frame, masks);
  return output;
}

SharedTensor ObjectStep::encode_bucket_memory(
    Context& ctx, const EncodedFrame& frame,
    std::span<const sam3::MultiplexTracker::SlotMask> masks) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View features =
      multiplex()->encode_new_memory(ctx, heads(), frame.buckets.embedding, masks);
  if (options_.bfloat16_memory) round_to_bfloat16_(features);
  return Tensor::copy_of(features);
}

// ---------------------------------------------------------------- shapes

ObjectStep::OutputShapes ObjectStep::output_shapes() const {
  const sam2::HeadsConfig& config = heads().config;
  const std::int64_t g = config.base.grid();
  const Shape memory = config.memory ? heads().memory_shape() : Shape{0};
  return {memory, {config.hidden_dim()}, {4 * g, 4 * g}};
}

ObjectStep::OutputShapes ObjectStep::bucket_shapes() const {
  const sam3::MultiplexConfig& config = multiplex()->config;
  return {multiplex()->memory_shape(), {config.multiplex_count, config.d_model()}, {0}};
}

// ---------------------------------------------------------------- outputs at the size of the video

MaskGeometry ObjectStep::mask_geometry(Size hw) const {
  const std::int64_t low = model_->info().mask_side;
  return {.low_height = low, .low_width = low, .height = hw.height, .width = hw.width};
}

// (H, W)
void ObjectStep::logits_of(Context& ctx, const FrameOutput& output, Size hw, View out) const {
  if (output.video_mask != nullptr) {
    std::transform(
        output.video_mask->begin(), output.video_mask->end(), out.data,
        [](std::uint8_t bit) { return bit != 0 ? -sam2::kNoObjScore : sam2::kNoObjScore; });
    return;
  }
  const Workspace::Scope scratch(ctx.workspace);
  postprocess_masks(ctx, as_batch(output.low_res_mask.view()), mask_geometry(hw), as_batch(out));
}

void ObjectStep::upscale(Context& ctx, Outputs outputs, Size hw, View out) const {
  const auto count = static_cast<std::int64_t>(outputs.size());
  for (std::int64_t i = 0; i < count; ++i) {
    logits_of(ctx, *outputs[static_cast<std::size_t>(i)], hw, out[i]);
  }
  if (options_.non_overlap_masks) apply_non_overlapping_constraints_(ctx, out);
  if (rules().fill_video_masks && options_.fill_hole_area > 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      remove_small_components_(out[i], options_.fill_hole_area);
    }
  }
}

void ObjectStep::binarize(Context& ctx, Outputs outputs, Size hw, std::uint8_t* out) const {
  if (options_.non_overlap_masks && outputs.size() > 1) {
    std::vector<ObjectMask> masks;
    for (const FrameOutput* const output : outputs) {
      const bool is_given = output->video_mask != nullptr;
      masks.push_back({.low_res = is_given ? nullptr : output->low_res_mask.data(),
                       .given = is_given ? output->video_mask->data() : nullptr});
    }
    binarize_apart(ctx, masks, -sam2::kNoObjScore, mask_geometry(hw), model_->info().mask_threshold,
                   out);
  } else {
    std::uint8_t* next = out;
    for (const FrameOutput* const output : outputs) {
      binarize_one(ctx, *output, hw, next);
      next += hw.height * hw.width;
    }
  }
  if (!rules().fill_video_masks || options_.fill_hole_area == 0) return;
  for (std::size_t i = 0; i < outputs.size(); ++i, out += hw.height * hw.width) {
    remove_small_components_(out, hw.height, hw.width, options_.fill_hole_area);
  }
}

// (H, W) of the video.
void ObjectStep::binarize_one(Context& ctx, const FrameOutput& output, Size hw,
                              std::uint8_t* out) const {
  if (output.video_mask != nullptr) {
    std::copy(output.video_mask->begin(), output.video_mask->end(), out);
    return;
  }
  const Workspace::Scope scratch(ctx.workspace);
  binarize_masks(ctx, as_batch(output.low_res_mask.view()), mask_geometry(hw),
                 model_->info().mask_threshold, out);
}

}  // namespace sam_rlx
