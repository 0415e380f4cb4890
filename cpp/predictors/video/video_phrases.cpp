#include "predictors/video/video_phrases.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace sam_rlx {
namespace {

bool has(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::int64_t VideoPhrases::delay() const {
  std::int64_t frames = 0;
  for (const Phrase& phrase : phrases_) {
    frames = std::max(frames, phrase.tracker->config().hot_start.hotstart_delay);
  }
  return frames;
}

VideoPhrases::State VideoPhrases::state() const {
  State state{.phrases = {}, .names = names_, .next_name = next_name_};
  for (const Phrase& phrase : phrases_) {
    state.phrases.emplace_back(phrase, phrase.tracker->state());
  }
  return state;
}

void VideoPhrases::restore(const State& state) {
  std::vector<Phrase> phrases;
  for (const auto& [phrase, masklets] : state.phrases) {
    phrases.push_back(phrase);
    phrase.tracker->restore(masklets);
  }
  phrases_ = std::move(phrases);
  names_ = state.names;
  next_name_ = state.next_name;
}

void VideoPhrases::reset() {
  phrases_.clear();
  names_.clear();
  next_name_ = 0;
}

VideoPhrases::Phrase* VideoPhrases::phrase_of(std::int64_t handle) const {
  for (Phrase& phrase : phrases_) {
    if (has(phrase.tracker->obj_ids(), handle)) return &phrase;
  }
  return nullptr;
}

// ---------------------------------------------------------------- prompts

void VideoPhrases::add(MaskletPrompt prompt, const MaskletConfig& config, std::int64_t first) {
  Phrase phrase;
  phrase.tracker = std::make_shared<MaskletTracker>(session_, std::move(prompt), config);
  phrase.first = first;
  phrases_.push_back(std::move(phrase));
}

void VideoPhrases::search_for(Phrase& phrase, const Search& search) {
  const std::int64_t begin = search.next_handle;
  search.next_handle += phrase.tracker->det_track_one_frame(
      {.frame = search.frame, .reverse = search.reverse, .next_obj_id = begin});
  for (std::int64_t handle = begin; handle < search.next_handle; ++handle) {
    names_[handle] = next_name_++;
  }
}

void VideoPhrases::refine(const VideoSession::PointPrompt& prompt) {
  Phrase* const phrase = phrase_of(prompt.handle);
  if (phrase == nullptr) {
    fail("add_prompt", "an object that was found", "object " + std::to_string(prompt.handle));
  }
  if (!phrase->tracker->has_results(prompt.frame)) {
    fail<StateError>("frame_index", "a frame that was tracked, to correct what was found",
                     std::to_string(prompt.frame));
  }
  phrase->tracker->refine(prompt);
  phrase->refined[prompt.handle].clear();
}

void VideoPhrases::remove_object(std::int64_t handle) {
  Phrase* const phrase = phrase_of(handle);
  if (phrase == nullptr) {
    fail("remove_object", "an object that was found", "object " + std::to_string(handle));
  }
  phrase->tracker->remove_object(handle);
  phrase->refined.erase(handle);
}

// ---------------------------------------------------------------- frames

// Objects that were clicked and not tracked on the frame since then.
std::vector<std::int64_t> VideoPhrases::pending(const Phrase& phrase, std::int64_t index) {
  std::vector<std::int64_t> handles;
  for (const auto& [handle, done] : phrase.refined) {
    if (!done.contains(index) && has(phrase.tracker->obj_ids(), handle)) handles.push_back(handle);
  }
  return handles;
}

bool VideoPhrases::needs_frame(std::int64_t index) const {
  return std::any_of(phrases_.begin(), phrases_.end(), [&](const Phrase& phrase) {
    return !phrase.done.contains(index) || !pending(phrase, index).empty();
  });
}

void VideoPhrases::step(const Search& search) {
  for (Phrase& phrase : phrases_) {
    std::vector<std::int64_t> tracked;
    if (!phrase.done.contains(search.frame)) {
      search_for(phrase, search);
      if (streaming()) {
        phrase.tracker->drop_results_before(search.frame);
      } else {
        phrase.done.insert(search.frame);
      }
      for (const auto& entry : phrase.refined) tracked.push_back(entry.first);
    } else {
      tracked = pending(phrase, search.frame);
      if (!tracked.empty()) phrase.tracker->track_refined(search.frame, search.reverse, tracked);
    }
    if (streaming()) continue;
    for (const std::int64_t handle : tracked) phrase.refined[handle].insert(search.frame);
  }
  if (streaming()) drop_forgotten();
}

void VideoPhrases::drop_forgotten() {
  std::erase_if(names_, [&](const auto& entry) { return !knows(entry.first); });
  for (Phrase& phrase : phrases_) {
    std::erase_if(phrase.refined, [&](const auto& entry) { return !knows(entry.first); });
  }
}

}  // namespace sam_rlx
