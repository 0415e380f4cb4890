#include "predictors/video/video_session.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "layers/position_encoding.h"
#include "masks/geometry.h"
#include "masks/overlap.h"
#include "masks/small_regions.h"
#include "predictors/image/image_predictor.h"

namespace sam_rlx {
namespace {

std::string text(Size size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width) + " pixels";
}

}  // namespace

VideoSession::VideoSession(std::shared_ptr<const Model> model, int num_threads,
                           const VideoOptions& options)
    : model_(std::move(model)),
      options_(options),
      num_threads_(checked_num_threads(num_threads)),
      front_end_(ImageFrontEnd::make(model_)) {
  // heads() raises UnsupportedError when the model cannot follow objects.
  if (!front_end_->heads().config.memory) {
    fail<UnsupportedError>("VideoPredictor", "a model with memory weights",
                           "an image model without them, such as transformers' Sam2Model");
  }
  if (options_.resize) front_end_->check(*options_.resize);
  if (rules().batched && !options_.add_all_frames_to_correct_as_cond) {
    fail<UnsupportedError>("add_all_frames_to_correct_as_cond", "true with SAM 3", "false");
  }
  if (!rules().batched && options_.use_memory_selection) {
    fail<UnsupportedError>("use_memory_selection", "false with SAM 2", "true");
  }
  const PositionEmbeddingSine encoding{.num_pos_feats = heads().config.mem_dim()};
  const std::int64_t g = heads().config.base.grid();
  maskmem_pos_enc_ = encoding.dense(g, g);
}

Context VideoSession::context() {
  return {.kernels = model_->kernels(),
          .workspace = workspace_,
          .num_threads = num_threads_,
          .trace = trace_,
          .poll_interrupt = poll_interrupt_};
}

void VideoSession::set_num_frames(std::optional<std::int64_t> count) {
  if (count && (*count < 1 || *count > sam2::kMaxFrames)) {
    fail("num_frames", "1 to " + std::to_string(sam2::kMaxFrames), std::to_string(*count));
  }
  num_frames_ = count;
}

// ---------------------------------------------------------------- frames

bool VideoSession::has_frame(std::int64_t index) const {
  const EncodedFrame* const frame = state_.frames.peek(index);
  return frame != nullptr && (frame->has_detector || !state_.with_detector);
}

void VideoSession::set_frame(std::int64_t index, const ImageView& image,
                             std::optional<Size> orig_hw) {
  const std::string where = "frame " + std::to_string(index);
  const Size size = orig_hw.value_or(Size{image.height, image.width});
  const std::int64_t count = num_frames_.value_or(sam2::kMaxFrames);
  if (index < 0 || index >= count) {
    fail(where, "0 to " + std::to_string(count - 1), std::to_string(index));
  }
  check_size(where, size);
  if (state_.orig_hw && size != *state_.orig_hw) {
    fail(where, text(*state_.orig_hw) + " as in the first frame", text(size));
  }
  if (has_frame(index)) return;
  Context ctx = context();
  EncodedFramePtr frame = pool_.take();
  front_end_->encode(
      ctx, image, options_.resize.value_or(rules().resizes.of(options_.frames)),
      {.clicks = &frame->features, .detector = state_.with_detector ? &frame->detector : nullptr});
  frame->index = index;
  frame->has_detector = state_.with_detector;
  state_.frames.adopt(std::move(frame));
  state_.orig_hw = size;
}

EncodedFrame& VideoSession::cached_frame(std::int64_t index, const char* where) {
  if (EncodedFrame* const frame = state_.frames.find(index)) return *frame;
  fail<StateError>(where, "frame " + std::to_string(index) + " given before", "none");
}

// ---------------------------------------------------------------- objects

TrackedObject* VideoSession::object_named(std::int64_t handle) const {
  for (const auto& object : state_.objects) {
    if (object->handle == handle) return object.get();
  }
  return nullptr;
}

TrackedObject& VideoSession::known_object(std::int64_t handle, const char* where) const {
  if (TrackedObject* const object = object_named(handle)) return *object;
  fail(where, "an object with prompts", "object " + std::to_string(handle));
}

TrackedObject& VideoSession::object_of(std::int64_t handle) {
  if (TrackedObject* const object = object_named(handle)) return *object;
  state_.objects.push_back(std::make_unique<TrackedObject>());
  state_.objects.back()->handle = handle;
  state_.objects.back()->batch = state_.open_batch;
  return *state_.objects.back();
}

void VideoSession::remove_object(std::int64_t handle) {
  TrackedObject& removed = known_object(handle, "remove_object");
  const std::int64_t batch = removed.batch;
  if (rules().batched) leave_batch(removed);
  std::erase_if(state_.objects, [&](const auto& object) { return object->handle == handle; });
  if (options_.use_memory_selection) score_batch(batch);
}

void VideoSession::reset() {
  state_.objects.clear();
  state_.open_batch = 0;
}

void VideoSession::adopt(std::vector<ValuePtr<TrackedObject>> objects,
                         std::optional<Size> orig_hw) {
  state_.objects = std::move(objects);
  state_.orig_hw = orig_hw;
  state_.open_batch = 0;
  for (const auto& object : state_.objects) {
    state_.open_batch = std::max(state_.open_batch, object->batch + 1);
  }
}

// ---------------------------------------------------------------- prompts

// Upstream's order of operations, in float32: to 0 ... 1, to the model's side, half a pixel.
ClickedPoints VideoSession::to_model_frame(const PointPrompt& prompt) const {
  ClickedPoints points;
  points.labels.assign(prompt.labels.begin(), prompt.labels.end());
  const Size hw = *state_.orig_hw;
  const float size[2] = {static_cast<float>(hw.width), static_cast<float>(hw.height)};
  for (std::size_t i = 0; i < prompt.coords.size(); ++i) {
    float value = static_cast<float>(prompt.coords[i]);
    if (prompt.normalize_coords) value /= size[i % 2];
    value *= static_cast<float>(side());
    points.coords.push_back(static_cast<double>(value + 0.5F));
  }
  return points;
}

// Those of before stay in front if the prompt says so.
ClickedPoints VideoSession::all_points(const PointPrompt& prompt,
                                       const TrackedObject& object) const {
  ClickedPoints points = to_model_frame(prompt);
  const auto before = object.points.find(prompt.frame);
  if (!prompt.clear_old_points && before != object.points.end()) {
    const ClickedPoints& old = before->second;
    points.coords.insert(points.coords.begin(), old.coords.begin(), old.coords.end());
    points.labels.insert(points.labels.begin(), old.labels.begin(), old.labels.end());
  }
  const std::size_t most = rules().max_points, count = points.labels.size();
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

bool VideoSession::add_points(const PointPrompt& prompt) {
  EncodedFrame& frame = cached_frame(prompt.frame, "add_prompt");
  const TrackedObject unknown;
  const TrackedObject* const known = object_named(prompt.handle);
  const TrackedObject& object = known != nullptr ? *known : unknown;

  ClickedPoints points = all_points(prompt, object);
  const auto tracked = object.frames_tracked.find(prompt.frame);
  const bool is_init_cond_frame = tracked == object.frames_tracked.end();
  const bool is_cond = is_init_cond_frame || options_.add_all_frames_to_correct_as_cond;

  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const Step step{.frame = frame,
                  .object = object,
                  .is_init_cond_frame = is_init_cond_frame || !rules().clicks_see_memory,
                  .reverse = !is_init_cond_frame && tracked->second};
  const FrameOutput* before = object.latest_output(prompt.frame, is_cond);
  if (before != nullptr && (before->is_outdated || before->video_mask != nullptr)) before = nullptr;
  FrameOutputPtr output = run_points(ctx, step, points, before);

  TrackedObject& target = object_of(prompt.handle);
  target.points[prompt.frame] = std::move(points);
  target.mask_frames.erase(prompt.frame);
  (is_cond ? target.temp_cond : target.temp_non_cond).set(prompt.frame, std::move(output));
  return is_cond;
}

bool VideoSession::add_mask(std::int64_t index, std::int64_t handle, ConstView mask) {
  EncodedFrame& frame = cached_frame(index, "add_prompt");
  const TrackedObject* const known = object_named(handle);
  const bool is_cond = options_.add_all_frames_to_correct_as_cond || known == nullptr ||
                       !known->frames_tracked.contains(index);
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  FrameOutputPtr output =
      rules().batched ? run_video_mask(ctx, frame, mask) : run_mask(ctx, frame, mask);

  TrackedObject& target = object_of(handle);
  target.mask_frames.insert(index);
  target.points.erase(index);
  (is_cond ? target.temp_cond : target.temp_non_cond).set(index, std::move(output));
  if (rules().batched) erase_from_others(target, index);
  return is_cond;
}

bool VideoSession::clear_prompts(std::int64_t frame, std::int64_t handle) {
  TrackedObject& object = known_object(handle, "clear_prompts");
  object.clear_prompts(frame);
  if (rules().batched) {
    downgrade_batch(object.batch, frame);
  } else {
    object.downgrade(frame);
  }
  return has_new_prompt(frame);
}

bool VideoSession::has_new_prompt(std::int64_t frame) const {
  return std::any_of(state_.objects.begin(), state_.objects.end(),
                     [&](const auto& object) { return object->temp_cond.find(frame) != nullptr; });
}

// ---------------------------------------------------------------- masks

MaskGeometry VideoSession::mask_geometry() const {
  const std::int64_t low = model_->info().mask_side;
  return {.low_height = low,
          .low_width = low,
          .height = state_.orig_hw->height,
          .width = state_.orig_hw->width};
}

std::vector<VideoSession::Shown> VideoSession::shown(std::int64_t frame, Source source) const {
  std::vector<Shown> result;
  for (const auto& object : state_.objects) {
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
    if (output != nullptr && !object->is_masklet) result.push_back({object->handle, output});
  }
  return result;
}

// (H, W) of the video.
void VideoSession::logits_of(Context& ctx, const FrameOutput& output, View out) const {
  if (output.video_mask != nullptr) {
    std::transform(
        output.video_mask->begin(), output.video_mask->end(), out.data,
        [](std::uint8_t bit) { return bit != 0 ? -sam2::kNoObjScore : sam2::kNoObjScore; });
    return;
  }
  const Workspace::Scope scratch(ctx.workspace);
  const ConstView mask = output.low_res_mask;
  postprocess_masks(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), mask_geometry(),
                    out.reshape({1, out.shape[0], out.shape[1]}));
}

void VideoSession::upscale(const std::vector<Shown>& objects, View out) {
  Context ctx = context();
  const auto count = static_cast<std::int64_t>(objects.size());
  for (std::int64_t i = 0; i < count; ++i) {
    logits_of(ctx, *objects[static_cast<std::size_t>(i)].output, out[i]);
  }
  if (options_.non_overlap_masks) apply_non_overlapping_constraints_(ctx, out);
  if (rules().fill_video_masks && options_.fill_hole_area > 0) {
    for (std::int64_t i = 0; i < count; ++i) {
      remove_small_components_(out[i], options_.fill_hole_area);
    }
  }
}

void VideoSession::binarize(const std::vector<Shown>& objects, std::uint8_t* out) {
  const float threshold = model_->info().mask_threshold;
  const std::int64_t positions = state_.orig_hw->height * state_.orig_hw->width;
  const bool filled = rules().fill_video_masks && options_.fill_hole_area > 0;
  if (filled || (options_.non_overlap_masks && objects.size() > 1)) {
    const auto count = static_cast<std::int64_t>(objects.size());
    const Workspace::Scope scratch(workspace_);
    const View logits = workspace_.floats({count, state_.orig_hw->height, state_.orig_hw->width});
    upscale(objects, logits);
    std::transform(logits.data, logits.data + logits.numel(), out,
                   [&](float logit) { return static_cast<std::uint8_t>(logit > threshold); });
    return;
  }
  Context ctx = context();
  for (const Shown& object : objects) {
    const FrameOutput& output = *object.output;
    if (output.video_mask != nullptr) {
      std::copy(output.video_mask->begin(), output.video_mask->end(), out);
    } else {
      const Workspace::Scope scratch(ctx.workspace);
      const ConstView mask = output.low_res_mask;
      binarize_masks(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), mask_geometry(),
                     threshold, out);
    }
    out += positions;
  }
}

}  // namespace sam_rlx
