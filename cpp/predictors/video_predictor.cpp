#include "predictors/video_predictor.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "layers/position_encoding.h"
#include "ops/mask.h"
#include "predictors/small_regions.h"
#include "predictors/video_masks.h"

namespace sam_rlx {
namespace {

std::string text(Size size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width) + " pixels";
}

}  // namespace

VideoPredictor::VideoPredictor(std::shared_ptr<const Model> model, int num_threads,
                               const VideoOptions& options)
    : model_(std::move(model)),
      options_(options),
      num_threads_(num_threads),
      encoder_(make_frame_encoder(model_, options.resize)) {
  if (num_threads < 0 || num_threads > 1024) {
    fail("num_threads", "1 to 1024, or 0 for all cores", std::to_string(num_threads));
  }
  if (num_threads == 0) num_threads_ = available_cores();
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

Context VideoPredictor::context() {
  return {.kernels = model_->kernels(),
          .workspace = workspace_,
          .num_threads = num_threads_,
          .poll_interrupt = poll_interrupt_};
}

// ---------------------------------------------------------------- frames

bool VideoPredictor::has_frame(std::int64_t index) const {
  const EncodedFrame* const frame = cache_.peek(index);
  return frame != nullptr && (frame->has_detector || !with_detector_);
}

void VideoPredictor::set_frame(std::int64_t index, const ImageView& image,
                               std::optional<Size> orig_hw) {
  const InUse guard(busy_, "VideoPredictor");
  const std::string where = "frame " + std::to_string(index);
  const Size size = orig_hw.value_or(Size{image.height, image.width});
  if (index < 0 || (num_frames_ && index >= *num_frames_)) {
    fail(where, "0 to " + std::to_string(num_frames_.value_or(0) - 1), std::to_string(index));
  }
  if (size.height < 1 || size.width < 1) fail(where, "at least one pixel", text(size));
  if (orig_hw_ && size != *orig_hw_) {
    fail(where, text(*orig_hw_) + " as in the first frame", text(size));
  }
  if (has_frame(index)) return;
  cache_.drop(index);
  Context ctx = context();
  const Workspace::Scope scratch(ctx.workspace);
  const View input = ctx.workspace.floats({1, side(), side(), 3});
  encoder_->preprocess(ctx, image, input[0]);
  EncodedFrame& frame = cache_.make_room();
  encoder_->forward_image(ctx, input, with_detector_, frame);
  frame.has_detector = with_detector_;
  cache_.adopt(frame, index);
  orig_hw_ = size;
}

EncodedFrame& VideoPredictor::cached_frame(std::int64_t index, const char* where) {
  if (EncodedFrame* const frame = cache_.find(index)) return *frame;
  fail<StateError>(where, "frame " + std::to_string(index) + " given before", "none");
}

// ---------------------------------------------------------------- objects

TrackedObject* VideoPredictor::object_named(std::int64_t handle) const {
  for (const auto& object : objects_) {
    if (object->handle == handle) return object.get();
  }
  return nullptr;
}

TrackedObject& VideoPredictor::known_object(std::int64_t handle, const char* where) const {
  if (TrackedObject* const object = object_named(handle)) return *object;
  fail(where, "an object with prompts", "object " + std::to_string(handle));
}

TrackedObject& VideoPredictor::object_of(std::int64_t handle) {
  if (TrackedObject* const object = object_named(handle)) return *object;
  objects_.push_back(std::make_unique<TrackedObject>());
  objects_.back()->handle = handle;
  objects_.back()->batch = open_batch_;
  return *objects_.back();
}

void VideoPredictor::remove_object(std::int64_t handle) {
  const InUse guard(busy_, "VideoPredictor");
  TrackedObject& removed = known_object(handle, "remove_object");
  const std::int64_t batch = removed.batch;
  if (rules().batched) leave_batch(removed);
  std::erase_if(objects_, [&](const auto& object) { return object->handle == handle; });
  if (options_.use_memory_selection) score_batch(batch);
}

void VideoPredictor::reset() {
  const InUse guard(busy_, "VideoPredictor");
  objects_.clear();
  spare_.clear();
  open_batch_ = 0;
}

void VideoPredictor::restore(std::vector<std::unique_ptr<TrackedObject>> objects,
                             std::optional<Size> orig_hw) {
  const InUse guard(busy_, "VideoPredictor");
  objects_ = std::move(objects);
  orig_hw_ = orig_hw;
  open_batch_ = 0;
  for (const auto& object : objects_) open_batch_ = std::max(open_batch_, object->batch + 1);
}

// ---------------------------------------------------------------- prompts

// Upstream's order of operations, in float32: to 0 ... 1, to the model's side, half a pixel.
ClickedPoints VideoPredictor::to_model_frame(const PointPrompt& prompt) const {
  ClickedPoints points;
  points.labels.assign(prompt.labels.begin(), prompt.labels.end());
  const float size[2] = {static_cast<float>(orig_hw_->width), static_cast<float>(orig_hw_->height)};
  for (std::size_t i = 0; i < prompt.coords.size(); ++i) {
    float value = static_cast<float>(prompt.coords[i]);
    if (prompt.normalize_coords) value /= size[i % 2];
    value *= static_cast<float>(side());
    points.coords.push_back(static_cast<double>(value + 0.5F));
  }
  return points;
}

// Those of before stay in front if the prompt says so.
ClickedPoints VideoPredictor::all_points(const PointPrompt& prompt,
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

bool VideoPredictor::add_points(const PointPrompt& prompt) {
  const InUse guard(busy_, "VideoPredictor");
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
  if (before != nullptr && (before->is_outdated || !before->video_mask.empty())) before = nullptr;
  FrameOutputPtr output = run_points(ctx, step, points, before);

  TrackedObject& target = object_of(prompt.handle);
  target.points[prompt.frame] = std::move(points);
  target.mask_frames.erase(prompt.frame);
  recycle((is_cond ? target.temp_cond : target.temp_non_cond).set(prompt.frame, std::move(output)));
  return is_cond;
}

bool VideoPredictor::add_mask(std::int64_t index, std::int64_t handle, ConstView mask) {
  const InUse guard(busy_, "VideoPredictor");
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
  recycle((is_cond ? target.temp_cond : target.temp_non_cond).set(index, std::move(output)));
  if (rules().batched) erase_from_others(target, index);
  return is_cond;
}

bool VideoPredictor::clear_prompts(std::int64_t frame, std::int64_t handle) {
  const InUse guard(busy_, "VideoPredictor");
  TrackedObject& object = known_object(handle, "clear_prompts");
  object.clear_prompts(frame);
  if (rules().batched) {
    downgrade_batch(object.batch, frame);
  } else {
    object.downgrade(frame);
  }
  return has_new_prompt(frame);
}

bool VideoPredictor::has_new_prompt(std::int64_t frame) const {
  return std::any_of(objects_.begin(), objects_.end(),
                     [&](const auto& object) { return object->temp_cond.find(frame) != nullptr; });
}

// ---------------------------------------------------------------- masks

MaskGeometry VideoPredictor::mask_geometry() const {
  const std::int64_t low = model_->info().mask_side;
  return {
      .low_height = low, .low_width = low, .height = orig_hw_->height, .width = orig_hw_->width};
}

std::vector<VideoPredictor::Shown> VideoPredictor::shown(std::int64_t frame, Source source) const {
  std::vector<Shown> result;
  for (const auto& object : objects_) {
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
void VideoPredictor::logits_of(Context& ctx, const FrameOutput& output, View out) const {
  if (!output.video_mask.empty()) {
    std::transform(
        output.video_mask.begin(), output.video_mask.end(), out.data,
        [](std::uint8_t bit) { return bit != 0 ? -sam2::kNoObjScore : sam2::kNoObjScore; });
    return;
  }
  const Workspace::Scope scratch(ctx.workspace);
  const ConstView mask = output.low_res_mask;
  postprocess_masks(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), mask_geometry(),
                    out.reshape({1, out.shape[0], out.shape[1]}));
}

void VideoPredictor::upscale(const std::vector<Shown>& objects, View out) {
  const InUse guard(busy_, "VideoPredictor");
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

void VideoPredictor::binarize(const std::vector<Shown>& objects, std::uint8_t* out) {
  const float threshold = model_->info().mask_threshold;
  const std::int64_t places = orig_hw_->height * orig_hw_->width;
  const bool filled = rules().fill_video_masks && options_.fill_hole_area > 0;
  if (filled || (options_.non_overlap_masks && objects.size() > 1)) {
    const auto count = static_cast<std::int64_t>(objects.size());
    const Workspace::Scope scratch(workspace_);
    const View logits = workspace_.floats({count, orig_hw_->height, orig_hw_->width});
    upscale(objects, logits);
    std::transform(logits.data, logits.data + logits.numel(), out,
                   [&](float logit) { return static_cast<std::uint8_t>(logit > threshold); });
    return;
  }
  const InUse guard(busy_, "VideoPredictor");
  Context ctx = context();
  for (const Shown& object : objects) {
    const FrameOutput& output = *object.output;
    if (!output.video_mask.empty()) {
      std::copy(output.video_mask.begin(), output.video_mask.end(), out);
    } else {
      const Workspace::Scope scratch(ctx.workspace);
      const ConstView mask = output.low_res_mask;
      binarize_masks(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), mask_geometry(),
                     threshold, out);
    }
    out += places;
  }
}

}  // namespace sam_rlx
