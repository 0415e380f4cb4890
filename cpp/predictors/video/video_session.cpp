#include "predictors/video/video_session.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "predictors/video/saved_session.h"

namespace sam_rlx {
namespace {

std::optional<std::int64_t> frames_in(const std::unique_ptr<FrameSource>& source) {
  return source == nullptr ? std::nullopt : source->count();
}

}  // namespace

VideoSession::VideoSession(std::shared_ptr<const Model> model, int num_threads,
                           const VideoOptions& options, std::unique_ptr<FrameSource> source)
    : source_(std::move(source)),
      objects_(std::move(model), num_threads, options, frames_in(source_)),
      texts_(objects_) {}

VideoSession::State VideoSession::state() const {
  return {.objects = objects_.state(),
          .texts = texts_.state(),
          .next_handle = next_handle_,
          .num_pushed = num_pushed_};
}

void VideoSession::restore(State state) noexcept {
  objects_.restore(std::move(state.objects));
  texts_.restore(std::move(state.texts));
  next_handle_ = state.next_handle;
  num_pushed_ = state.num_pushed;
}

std::unique_ptr<VideoSession> VideoSession::clone(std::unique_ptr<FrameSource> source) const {
  if (!texts_.empty()) {
    fail<UnsupportedError>("copy of a session", "one without texts", "texts");
  }
  auto other = std::make_unique<VideoSession>(objects_.step().shared_model(), num_threads(),
                                              objects_.options(), std::move(source));
  State copy = state();
  copy.objects.frames = {};
  for (auto* const objects : {&copy.objects.objects, &copy.objects.buckets}) {
    for (auto& object : *objects) object = object.clone();
  }
  other->restore(std::move(copy));
  other->labels_ = labels_;
  return other;
}

NamedTensors VideoSession::save() {
  if (!texts_.empty()) fail<UnsupportedError>("save", "a session without texts", "one with");
  if (!objects_.objects().empty()) prepare();
  const auto pushed = source_ == nullptr ? std::optional(num_pushed_) : std::nullopt;
  return to_tensors({.objects = objects_.objects(),
                     .buckets = objects_.state().buckets,
                     .orig_hw = objects_.orig_hw(),
                     .num_pushed = pushed},
                    objects_.step());
}

void VideoSession::adopt(const NamedTensors& saved) {
  SavedSession session = from_tensors(saved, objects_.step());
  if (session.num_pushed.has_value() != (source_ == nullptr)) {
    fail<CheckpointError>("session", "one with its frames",
                          source_ == nullptr ? "one of a video" : "one of push");
  }
  next_handle_ = 0;
  for (const auto& object : session.objects) take_handle(object->handle);
  objects_.adopt(std::move(session.objects), std::move(session.buckets), session.orig_hw);
  num_pushed_ = session.num_pushed.value_or(0);
}

// ---------------------------------------------------------------- prompts

FrameResult VideoSession::add_points(const PointPrompt& prompt, Wants wants, bool of_text) {
  return change([&] {
    need(prompt.frame);
    Source source = Source::kLatest;
    if (of_text || texts_.knows(prompt.handle)) {
      texts_.refine(prompt, of_text);
    } else {
      source = objects_.add_points(prompt) ? Source::kCond : Source::kCorrection;
    }
    take_handle(prompt.handle);
    return result_of(prompt.frame, source, wants);
  });
}

FrameResult VideoSession::add_mask(const MaskPrompt& prompt, Wants wants) {
  if (texts_.knows(prompt.handle)) {
    fail<UnsupportedError>("mask", "points for what was found", "a mask");
  }
  return change([&] {
    need(prompt.frame);
    const Size hw = *objects_.orig_hw();
    if (!prompt.any_size && prompt.mask.shape != Shape{hw.height, hw.width}) {
      fail("mask", "bool " + Shape{hw.height, hw.width}.str(), "bool " + prompt.mask.shape.str());
    }
    const bool is_cond = objects_.add_mask(prompt.frame, prompt.handle, prompt.mask);
    take_handle(prompt.handle);
    return result_of(prompt.frame, is_cond ? Source::kCond : Source::kCorrection, wants);
  });
}

FrameResult VideoSession::add_text(const TextPrompt& prompt, Wants wants) {
  return change([&] {
    if (prompt.anew) forget_all();
    if (has_objects()) encode_prompts(false);
    const std::int64_t frame = prompt.frame.value_or(0);
    for (const TextPrompt::Text& text : prompt.texts) {
      texts_.add(text.text, text.prompt, prompt.config, frame);
      if (!prompt.frame && source_ == nullptr) continue;
      need(frame);
      if (prompt.examples) texts_.set_examples(frame, *prompt.examples);
      texts_.search_last({.frame = frame, .reverse = false, .next_handle = next_handle_});
    }
    return result_of(frame, Source::kLatest, wants);
  });
}

void VideoSession::add_object(std::int64_t handle) {
  objects_.add_object(handle);
  take_handle(handle);
}

FrameResult VideoSession::clear_prompts(std::int64_t frame, std::int64_t handle, Wants wants) {
  return change([&] {
    objects_.clear_prompts(frame, handle);
    return prompted_result(frame, wants);
  });
}

std::vector<FrameResult> VideoSession::remove_object(std::int64_t handle, Wants wants) {
  return change([&] {
    std::vector<FrameResult> results;
    if (texts_.knows(handle)) {
      texts_.remove_object(handle);
      return results;
    }
    FrameSet frames;
    if (const TrackedObject* const object = objects_.find(handle)) {
      frames = object->prompted_frames();
    }
    objects_.remove(handle);
    for (const std::int64_t frame : frames) {
      if (wants.anything()) results.push_back(prompted_result(frame, wants));
    }
    return results;
  });
}

void VideoSession::reset() { forget_all(); }

void VideoSession::forget_all() {
  objects_.reset();
  texts_.reset();
  next_handle_ = 0;
}

// ---------------------------------------------------------------- frames

// False: the video has ended before it.
bool VideoSession::read(std::int64_t index) {
  const ObjectStep& step = objects_.step();
  const auto square = step.wants_squares() ? std::optional(step.side()) : std::nullopt;
  return source_->read(index, square, [&](const ImageView& image, std::optional<Size> orig_hw) {
    objects_.set_frame(index, image, orig_hw);
  });
}

void VideoSession::need(std::int64_t index) {
  if (objects_.has_frame(index)) return;
  if (source_ == nullptr) {
    if (num_pushed_ == 0) fail<StateError>("VideoPredictor", "a frame from push", "none");
    fail<StateError>("frame_index", std::to_string(num_pushed_ - 1) + ", the last frame pushed",
                     std::to_string(index));
  }
  if (!read(index)) {
    fail("frame_index", "less than " + std::to_string(source_->count().value_or(index)),
         std::to_string(index));
  }
}

void VideoSession::load(std::int64_t index) {
  change([&] {
    need(index);
    return true;
  });
}

bool VideoSession::has_objects() const {
  return std::any_of(objects_.objects().begin(), objects_.objects().end(),
                     [](const auto& object) { return !object->is_masklet; });
}

void VideoSession::check_prompted(bool allow_unprompted) const {
  if (!has_objects() && texts_.empty()) {
    fail<StateError>("propagate", "an object with prompts or a text", "none");
  }
  for (const auto& object : objects_.objects()) {
    if (allow_unprompted || object->is_masklet || object->has_prompt()) continue;
    const auto label = labels_.find(object->handle);
    fail<StateError>("propagate",
                     "prompts for object " +
                         (label == labels_.end() ? std::to_string(object->handle) : label->second),
                     "none");
  }
}

void VideoSession::encode_prompts(bool allow_unprompted) {
  check_prompted(allow_unprompted);
  for (const std::int64_t frame : objects_.pending_frames()) {
    need(frame);
    objects_.encode_pending(frame);
  }
  objects_.preflight();
}

void VideoSession::prepare(bool allow_unprompted) {
  change([&] {
    encode_prompts(allow_unprompted);
    return true;
  });
}

std::int64_t VideoSession::first_frame() const {
  std::vector<std::int64_t> frames;
  for (const auto& object : objects_.objects()) {
    if (object->is_masklet) continue;
    for (const auto& [frame, value] : object->cond_frame_outputs) {
      if (!value.output->is_added) frames.push_back(frame);
    }
    for (const auto& entry : object->temp_cond) frames.push_back(entry.frame);
  }
  for (const VideoTexts::Text& text : texts_.texts()) frames.push_back(text.first);
  if (frames.empty()) fail<StateError>("propagate", "an object with prompts or a text", "none");
  return *std::min_element(frames.begin(), frames.end());
}

void VideoSession::refuse_logits(bool logits) const {
  if (logits && !texts_.empty()) {
    fail<UnsupportedError>("return_logits", "False with texts", "True");
  }
}

Propagation VideoSession::propagation(const Range& range) {
  refuse_logits(range.logits);
  if (!range.waits) prepare();
  Propagation result{.frame = range.start ? *range.start : first_frame(),
                     .left = range.count,
                     .reverse = range.reverse};
  if (!range.waits) return result;
  result.only.emplace();
  for (const auto& object : objects_.objects()) {
    if (!object->is_masklet) result.only->insert(object->handle);
  }
  return result;
}

Propagation VideoSession::text_propagation(const Range& range) {
  const std::optional<std::int64_t> first = texts_.first_result();
  if (!first) fail<StateError>("propagate_in_video", "a text or a box on a frame", "none");
  Propagation result{.frame = range.start.value_or(*first) - (range.reverse ? 1 : 0),
                     .left = range.count,
                     .reverse = range.reverse,
                     .text_work = next_text_work(texts_.actions(), num_frames())};
  texts_.note(
      {.frame = range.start, .handles = result.text_work.handles, .work = result.text_work.kind});
  return result;
}

void VideoSession::step(const Propagation& propagation) {
  const std::int64_t frame = propagation.frame;
  const HandleSet* const only = propagation.only ? &*propagation.only : nullptr;
  if (has_objects()) objects_.track(frame, propagation.reverse, only);
  texts_.step({.frame = frame, .reverse = propagation.reverse, .next_handle = next_handle_},
              propagation.text_work);
}

// One frame, or none of it. False: there is none.
bool VideoSession::track_next(Propagation& propagation) {
  const std::int64_t frame = propagation.frame;
  const std::optional<std::int64_t> count = num_frames();
  if (frame < 0 || (count && frame >= *count) || propagation.left == 0) return false;
  const bool is_tracked = change([&] {
    const HandleSet* const only = propagation.only ? &*propagation.only : nullptr;
    const TextWork& work = propagation.text_work;
    if (only == nullptr && work.kind == TextWork::Kind::kMissing) encode_prompts(false);
    const bool is_needed = objects_.needs_frame(frame, only) || texts_.needs_frame(frame, work);
    if (is_needed && !objects_.has_frame(frame) && !read(frame)) return false;
    step(propagation);
    return true;
  });
  if (!is_tracked) return false;
  propagation.held.push_back(frame);
  propagation.frame += propagation.reverse ? -1 : 1;
  if (propagation.left) --*propagation.left;
  return true;
}

std::optional<FrameResult> VideoSession::next(Propagation& propagation, Wants wants) {
  const TextWork::Kind work = propagation.text_work.kind;
  const bool waits = work == TextWork::Kind::kMissing || work == TextWork::Kind::kSearch;
  while (!propagation.ended) {
    if (!track_next(propagation)) {
      propagation.ended = true;
    } else if (!waits || static_cast<std::int64_t>(propagation.held.size()) >= texts_.delay()) {
      break;
    }
  }
  if (propagation.held.empty()) return std::nullopt;
  FrameResult result = result_of(propagation.held.front(), Source::kTracked, wants);
  propagation.held.pop_front();
  return result;
}

FrameResult VideoSession::push(const ImageView& image, Wants wants) {
  refuse_logits(wants.logits);
  return change([&] {
    if (has_objects()) encode_prompts(false);
    objects_.set_frame(num_pushed_, image, std::nullopt);
    step({.frame = num_pushed_});
    return result_of(num_pushed_++, Source::kTracked, wants);
  });
}

// ---------------------------------------------------------------- results

FrameResult VideoSession::result(std::int64_t frame, Source source, Wants wants) {
  refuse_logits(wants.logits);
  return result_of(frame, source, wants);
}

FrameResult VideoSession::prompted_result(std::int64_t frame, Wants wants) {
  return result_of(frame, objects_.has_new_prompt(frame) ? Source::kCond : Source::kCorrection,
                   wants);
}

FrameResult VideoSession::result_of(std::int64_t frame, Source source, Wants wants) {
  FrameResult result{.frame = frame};
  if (!wants.anything()) return result;
  if (!objects_.orig_hw()) fail<StateError>("masks", "a frame given before", "none");
  draw_objects(objects_.shown(frame, source), wants, result);
  for (const VideoTexts::Text& text : texts_.texts()) {
    TextResult found{.text = text.text};
    text.tracker->draw(frame, [&](const MaskletTracker::Seen& seen) {
      found.seen = seen;
      found.masks = MaskStack(static_cast<std::int64_t>(seen.obj_ids.size()), seen.hw);
      return found.masks.bits.get();
    });
    for (const std::int64_t handle : found.seen.obj_ids) {
      found.names.push_back(texts_.name_of(handle));
    }
    result.texts.push_back(std::move(found));
  }
  return result;
}

void VideoSession::draw_objects(const std::vector<TrackedObjects::Shown>& shown, Wants wants,
                                FrameResult& result) {
  std::vector<const FrameOutput*> outputs;
  for (const TrackedObjects::Shown& object : shown) {
    outputs.push_back(object.output);
    result.objects.push_back({object.handle, object.output->object_score_logits});
    if (wants.low_res_masks && object.output->low_res_mask.empty()) {
      fail<StateError>("low_res_masks", "a frame that was tracked", "a mask that was given");
    }
  }
  const auto count = static_cast<std::int64_t>(outputs.size());
  const Size hw = *objects_.orig_hw();
  Context ctx = objects_.context();
  if (wants.logits) {
    result.logits = Tensor({count, hw.height, hw.width});
    objects_.step().upscale(ctx, outputs, hw, result.logits.view());
  }
  if (wants.masks) {
    result.masks = MaskStack(count, hw);
    std::uint8_t* const bits = result.masks.bits.get();
    if (wants.logits) {
      const View logits = result.logits.view();
      std::transform(logits.data, logits.data + logits.numel(), bits,
                     [threshold = model().info().mask_threshold](float logit) {
                       return static_cast<std::uint8_t>(logit > threshold);
                     });
    } else {
      objects_.step().binarize(ctx, outputs, hw, bits);
    }
  }
  if (wants.low_res_masks) {
    const std::int64_t side = count == 0 ? 0 : outputs[0]->low_res_mask.shape()[0];
    result.low_res_masks = Tensor({count, side, side});
    float* next = result.low_res_masks.view().data;
    for (const FrameOutput* const output : outputs) {
      next = std::copy_n(output->low_res_mask.data(), output->low_res_mask.numel(), next);
    }
  }
}

}  // namespace sam_rlx
