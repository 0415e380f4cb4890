#include "predictors/video/video_predictor.h"

#include <algorithm>

#include "core/error.h"

namespace sam_rlx {

// ---------------------------------------------------------------- calls

void VideoPredictor::begin() {
  const InUse guard(busy_, "VideoPredictor");
  if (is_open_) {
    State before = committed_;
    texts_.restore(std::move(before.texts));
    session_.restore(std::move(before.session));
    next_handle_ = before.next_handle;
    num_pushed_ = before.num_pushed;
  }
  is_open_ = true;
}

void VideoPredictor::commit() {
  const InUse guard(busy_, "VideoPredictor");
  State state{.session = session_.state(),
              .texts = texts_.state(),
              .next_handle = next_handle_,
              .num_pushed = num_pushed_};
  Published published{.num_pushed = num_pushed_, .orig_hw = session_.orig_hw()};
  for (const auto& object : session_.objects()) {
    if (!object->is_masklet) published.handles.push_back(object->handle);
  }
  for (const VideoTexts::Text& text : texts_.texts()) {
    for (const std::int64_t handle : text.tracker->obj_ids()) {
      published.found_names.push_back(texts_.name_of(handle));
    }
  }
  const std::lock_guard lock(publishing_);
  committed_ = std::move(state);
  published_ = std::move(published);
  is_open_ = false;
}

std::unique_ptr<VideoPredictor> VideoPredictor::clone() {
  const InUse guard(busy_, "VideoPredictor");
  if (!texts_.empty()) {
    fail<UnsupportedError>("copy of a session", "one without texts", "texts");
  }
  auto other = std::make_unique<VideoPredictor>(session_.step().shared_model(), session_.num_threads(),
                                                session_.options(), session_.step().num_frames());
  SessionState state = session_.state();
  state.frames = {};
  for (auto& object : state.objects) object = object.clone();
  other->session_.restore(std::move(state));
  other->texts_.restore(texts_.state());
  other->next_handle_ = next_handle_;
  other->num_pushed_ = num_pushed_;
  other->labels_ = labels_;
  other->commit();
  return other;
}

VideoPredictor::Published VideoPredictor::published() const {
  const std::lock_guard lock(publishing_);
  return published_;
}

// ---------------------------------------------------------------- prompts

bool VideoPredictor::add_points(const PointPrompt& prompt) {
  const bool is_cond = change([&](TrackedObjects& session) { return session.add_points(prompt); });
  take_handle(prompt.handle);
  return is_cond;
}

bool VideoPredictor::add_mask(std::int64_t frame, std::int64_t handle, ConstView mask) {
  const bool is_cond =
      change([&](TrackedObjects& session) { return session.add_mask(frame, handle, mask); });
  take_handle(handle);
  return is_cond;
}

void VideoPredictor::add_object(std::int64_t handle) {
  change([&](TrackedObjects& session) { session.add_object(handle); });
  take_handle(handle);
}

void VideoPredictor::remove_object(std::int64_t handle) {
  change([&](TrackedObjects& session) {
    if (texts_.knows(handle)) return texts_.remove_object(handle);
    session.remove(handle);
  });
}

void VideoPredictor::reset() {
  change([&](TrackedObjects& session) {
    session.reset();
    texts_.reset();
  });
  next_handle_ = 0;
}

void VideoPredictor::refine(const PointPrompt& prompt, bool may_be_new) {
  const InUse guard(busy_, "VideoPredictor");
  texts_.refine(prompt, may_be_new);
  take_handle(prompt.handle);
}

void VideoPredictor::search(std::int64_t frame) {
  const InUse guard(busy_, "VideoPredictor");
  texts_.search_last({.frame = frame, .reverse = false, .next_handle = next_handle_});
}

// ---------------------------------------------------------------- frames

bool VideoPredictor::has_objects() const {
  return std::any_of(session_.objects().begin(), session_.objects().end(),
                     [](const auto& object) { return !object->is_masklet; });
}

std::optional<std::int64_t> VideoPredictor::prepare(bool allow_unprompted) {
  const InUse guard(busy_, "VideoPredictor");
  return prepare_session(allow_unprompted);
}

std::optional<std::int64_t> VideoPredictor::prepare_session(bool allow_unprompted) {
  if (!has_objects() && texts_.empty()) {
    fail<StateError>("propagate", "an object with prompts or a text", "none");
  }
  for (const auto& object : session_.objects()) {
    if (allow_unprompted || object->is_masklet || object->has_prompt()) continue;
    const auto label = labels_.find(object->handle);
    fail<StateError>("propagate",
                     "prompts for object " +
                         (label == labels_.end() ? std::to_string(object->handle) : label->second),
                     "none");
  }
  for (const std::int64_t frame : session_.pending_frames()) {
    if (!session_.has_frame(frame)) return frame;
    session_.encode_pending(frame);
  }
  session_.preflight();
  return std::nullopt;
}

std::int64_t VideoPredictor::first_frame() const {
  std::vector<std::int64_t> frames;
  for (const auto& object : session_.objects()) {
    if (object->is_masklet) continue;
    for (const auto& entry : object->cond_frame_outputs) frames.push_back(entry.frame);
    for (const auto& entry : object->temp_cond) frames.push_back(entry.frame);
  }
  for (const VideoTexts::Text& text : texts_.texts()) frames.push_back(text.first);
  if (frames.empty()) fail<StateError>("propagate", "an object with prompts or a text", "none");
  return *std::min_element(frames.begin(), frames.end());
}

Propagation VideoPredictor::propagation(const Range& range) {
  const InUse guard(busy_, "VideoPredictor");
  Propagation result{.frame = range.start ? *range.start : first_frame(),
                     .left = range.count,
                     .reverse = range.reverse};
  if (!range.waits) return result;
  result.only.emplace();
  for (const auto& object : session_.objects()) {
    if (!object->is_masklet) result.only->insert(object->handle);
  }
  return result;
}

Propagation VideoPredictor::text_propagation(const Range& range) {
  const InUse guard(busy_, "VideoPredictor");
  const std::optional<std::int64_t> first = texts_.first_result();
  if (!first) fail<StateError>("propagate_in_video", "a text or a box on a frame", "none");
  Propagation result{.frame = range.start.value_or(*first) - (range.reverse ? 1 : 0),
                     .left = range.count,
                     .reverse = range.reverse,
                     .text_work = next_text_work(texts_.actions(), session_.step().num_frames())};
  texts_.note(
      {.frame = range.start, .handles = result.text_work.handles, .work = result.text_work.kind});
  return result;
}

void VideoPredictor::track(const Propagation& propagation) {
  const std::int64_t frame = propagation.frame;
  const HandleSet* const only = propagation.only ? &*propagation.only : nullptr;
  if (has_objects()) session_.track(frame, propagation.reverse, only);
  texts_.step({.frame = frame, .reverse = propagation.reverse, .next_handle = next_handle_},
              propagation.text_work);
}

PropagationStep VideoPredictor::next(Propagation& propagation) {
  const InUse guard(busy_, "VideoPredictor");
  const std::int64_t frame = propagation.frame;
  const std::optional<std::int64_t> count = session_.step().num_frames();
  if (frame < 0 || (count && frame >= *count) || propagation.left == 0) propagation.ended = true;
  if (!propagation.ended) {
    const HandleSet* const only = propagation.only ? &*propagation.only : nullptr;
    const bool is_missing = propagation.text_work.kind == TextWork::Kind::kMissing;
    if (only == nullptr && is_missing) {
      if (const auto wanted = prepare_session(false)) return {.wanted = wanted};
    }
    const bool is_needed =
        session_.needs_frame(frame, only) || texts_.needs_frame(frame, propagation.text_work);
    if (is_needed && !session_.has_frame(frame)) return {.wanted = frame};
    track(propagation);
    propagation.held.push_back(frame);
    propagation.frame += propagation.reverse ? -1 : 1;
    if (propagation.left) --*propagation.left;
    const bool waits = is_missing || propagation.text_work.kind == TextWork::Kind::kSearch;
    if (waits && static_cast<std::int64_t>(propagation.held.size()) < texts_.delay()) return {};
  }
  if (propagation.held.empty()) return {};
  const std::int64_t ready = propagation.held.front();
  propagation.held.pop_front();
  return {.ready = ready};
}

void VideoPredictor::push(const ImageView& image) {
  const InUse guard(busy_, "VideoPredictor");
  session_.set_frame(num_pushed_, image, std::nullopt);
  track({.frame = num_pushed_});
  ++num_pushed_;
}

void VideoPredictor::adopt_counts(std::int64_t num_pushed) {
  const InUse guard(busy_, "VideoPredictor");
  num_pushed_ = num_pushed;
  for (const auto& object : session_.objects()) take_handle(object->handle);
}

}  // namespace sam_rlx
