#include "predictors/video/video_texts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace sam_rlx {
namespace {

bool has(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::int64_t VideoTexts::delay() const {
  std::int64_t frames = 0;
  for (const Text& text : texts_) {
    frames = std::max(frames, text.tracker->config().hot_start.hotstart_delay);
  }
  return frames;
}

VideoTexts::State VideoTexts::state() const {
  State state{.texts = texts_, .names = names_, .next_name = next_name_, .actions = actions_};
  for (const Text& text : texts_) state.masklets.push_back(text.tracker->state());
  return state;
}

void VideoTexts::restore(State state) noexcept {
  texts_ = std::move(state.texts);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    texts_[i].tracker->restore(std::move(state.masklets[i]));
  }
  names_ = std::move(state.names);
  next_name_ = state.next_name;
  actions_ = std::move(state.actions);
}

void VideoTexts::reset() {
  texts_.clear();
  names_.clear();
  next_name_ = 0;
  actions_.clear();
}

VideoTexts::Text* VideoTexts::text_of(std::int64_t handle) const {
  for (Text& text : texts_) {
    if (has(text.tracker->obj_ids(), handle)) return &text;
  }
  return nullptr;
}

// ---------------------------------------------------------------- prompts

void VideoTexts::add(std::string text, MaskletPrompt prompt, const MaskletConfig& config,
                     std::int64_t first) {
  texts_.push_back(
      {.tracker = std::make_shared<MaskletTracker>(objects_, std::move(prompt), config,
                                                   static_cast<std::int64_t>(texts_.size())),
       .text = std::move(text),
       .first = first});
}

void VideoTexts::search_for(Text& text, const Search& search) {
  const std::int64_t begin = search.next_handle;
  search.next_handle += text.tracker->det_track_one_frame(
      {.frame = search.frame, .reverse = search.reverse, .next_obj_id = begin});
  for (std::int64_t handle = begin; handle < search.next_handle; ++handle) {
    names_[handle] = next_name_++;
  }
}

void VideoTexts::refine(const PointPrompt& prompt, bool may_be_new) {
  Text* text = text_of(prompt.handle);
  const bool is_new = text == nullptr;
  if (is_new && may_be_new && !empty()) text = &texts_.back();
  if (text == nullptr) {
    fail("add_prompt", "an object that was found", "object " + std::to_string(prompt.handle));
  }
  if (!text->tracker->has_results(prompt.frame)) {
    fail<StateError>("frame_index", "a frame that was tracked, to correct what was found",
                     std::to_string(prompt.frame));
  }
  text->tracker->refine(prompt, is_new);
  if (is_new) {
    names_[prompt.handle] = prompt.handle;
    reserve_names(prompt.handle + 1);
  }
  text->refined[prompt.handle].clear();
  note({.kind = is_new ? TextAction::Kind::kAdd : TextAction::Kind::kRefine,
        .frame = prompt.frame,
        .handles = {prompt.handle}});
}

void VideoTexts::remove_object(std::int64_t handle) {
  Text* const text = text_of(handle);
  if (text == nullptr) {
    fail("remove_object", "an object that was found", "object " + std::to_string(handle));
  }
  text->tracker->remove_object(handle);
  text->refined.erase(handle);
}

// ---------------------------------------------------------------- frames

// Objects that were clicked and not tracked on the frame since then.
std::vector<std::int64_t> VideoTexts::pending(const Text& text, std::int64_t index) {
  std::vector<std::int64_t> handles;
  for (const auto& [handle, done] : text.refined) {
    if (!done.contains(index) && has(text.tracker->obj_ids(), handle)) handles.push_back(handle);
  }
  return handles;
}

std::optional<std::int64_t> VideoTexts::first_result() const {
  std::optional<std::int64_t> first;
  for (const Text& text : texts_) {
    const auto& results = text.tracker->state().results;
    if (results.empty()) continue;
    first = std::min(first.value_or(results.begin()->frame), results.begin()->frame);
  }
  return first;
}

bool VideoTexts::needs_frame(std::int64_t index, const TextWork& work) const {
  if (work.kind != TextWork::Kind::kMissing) return work.kind != TextWork::Kind::kShow;
  return std::any_of(texts_.begin(), texts_.end(), [&](const Text& text) {
    return !text.done.contains(index) || !pending(text, index).empty();
  });
}

void VideoTexts::step(const Search& search, const TextWork& work) {
  switch (work.kind) {
    case TextWork::Kind::kMissing:
      return do_missing(search);
    case TextWork::Kind::kSearch:
      for (Text& text : texts_) search_for(text, search);
      return;
    case TextWork::Kind::kRefined:
      for (Text& text : texts_) {
        text.tracker->track_refined(search.frame, search.reverse, work.handles);
      }
      return;
    case TextWork::Kind::kShow:
      return;
  }
}

void VideoTexts::do_missing(const Search& search) {
  for (Text& text : texts_) {
    std::vector<std::int64_t> tracked;
    if (!text.done.contains(search.frame)) {
      search_for(text, search);
      if (streaming()) {
        text.tracker->drop_results_before(search.frame);
      } else {
        text.done.insert(search.frame);
      }
      for (const auto& entry : text.refined) tracked.push_back(entry.first);
    } else {
      tracked = pending(text, search.frame);
      if (!tracked.empty()) text.tracker->track_refined(search.frame, search.reverse, tracked);
    }
    if (streaming()) continue;
    for (const std::int64_t handle : tracked) text.refined[handle].insert(search.frame);
  }
  if (streaming()) drop_forgotten();
}

void VideoTexts::drop_forgotten() {
  std::erase_if(names_, [&](const auto& entry) { return !knows(entry.first); });
  for (Text& text : texts_) {
    std::erase_if(text.refined, [&](const auto& entry) { return !knows(entry.first); });
  }
}

}  // namespace sam_rlx
