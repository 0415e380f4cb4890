#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "predictors/video/masklet_tracker.h"
#include "predictors/video/text_actions.h"
#include "predictors/video/tracked_objects.h"

namespace sam_rlx {

// The texts of a session: when each is searched for and its objects are tracked, and the integers
// that name what was found. Upstream's video model has one text; here each is followed as if it
// were the only one. A call that fails may stop halfway: `restore` undoes it.
class VideoTexts {
 public:
  struct Text {
    std::shared_ptr<MaskletTracker> tracker;
    std::string text;
    std::int64_t first = 0;  // the frame it was given on
    FrameSet done = {};      // frames that propagation has searched
    // By object that was clicked: frames that it was tracked on since then.
    std::map<std::int64_t, FrameSet> refined = {};
  };
  // All that calls change.
  struct State {
    std::vector<Text> texts = {};
    std::vector<MaskletState> masklets = {};          // of each text
    std::map<std::int64_t, std::int64_t> names = {};  // by object
    std::int64_t next_name = 0;
    std::vector<TextAction> actions = {};
  };

  explicit VideoTexts(TrackedObjects& objects) : objects_(objects) {}

  bool empty() const { return texts_.empty(); }
  const std::vector<Text>& texts() const { return texts_; }
  // Frames that are held back, since objects may turn out to be errors of the detector.
  std::int64_t delay() const;
  State state() const;
  void restore(State state) noexcept;
  void reset();

  // ---- names. No object that is found gets one below this.
  void reserve_names(std::int64_t end) { next_name_ = std::max(next_name_, end); }
  std::int64_t name_of(std::int64_t handle) const { return names_.at(handle); }
  bool knows(std::int64_t handle) const { return text_of(handle) != nullptr; }

  // ---- prompts
  void add(std::string text, MaskletPrompt prompt, const MaskletConfig& config, std::int64_t first);
  // Of the last text, on a frame.
  void set_examples(std::int64_t frame, MaskletExamples examples) {
    texts_.back().tracker->set_examples(frame, std::move(examples));
  }
  // Objects that are new get the numbers from next_handle on, which grows.
  struct Search {
    std::int64_t frame = 0;
    bool reverse = false;
    std::int64_t& next_handle;
  };
  // For the last text.
  void search_last(const Search& search) { search_for(texts_.back(), search); }
  // With `may_be_new` an object that no text named is one of the last text, named by its number.
  void refine(const PointPrompt& prompt, bool may_be_new = false);
  void remove_object(std::int64_t handle);

  // ---- what was done. Clicks note themselves.
  const std::vector<TextAction>& actions() const { return actions_; }
  void note(TextAction action) { actions_.push_back(std::move(action)); }

  // ---- frames
  // The first one that has results.
  std::optional<std::int64_t> first_result() const;
  // Whether the frame has to be at hand for `step`.
  bool needs_frame(std::int64_t index, const TextWork& work) const;
  void step(const Search& search, const TextWork& work);

 private:
  Text* text_of(std::int64_t handle) const;
  void search_for(Text& text, const Search& search);
  static std::vector<std::int64_t> pending(const Text& text, std::int64_t index);
  void do_missing(const Search& search);
  void drop_forgotten();
  bool streaming() const { return objects_.options().streaming; }

  TrackedObjects& objects_;
  mutable std::vector<Text> texts_;
  std::map<std::int64_t, std::int64_t> names_;
  std::int64_t next_name_ = 0;
  std::vector<TextAction> actions_;
};

}  // namespace sam_rlx
