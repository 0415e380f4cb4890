#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/in_use.h"
#include "predictors/video/tracked_objects.h"
#include "predictors/video/video_texts.h"

namespace sam_rlx {

// Where a propagation is.
struct Propagation {
  std::int64_t frame = 0;                 // the next one to track
  std::optional<std::int64_t> left = {};  // so many frames are to come. None: to the video's end
  bool reverse = false;
  // Objects that are tracked, when prompts and objects given meanwhile wait for the next
  // propagation. None: they count from the next frame on.
  std::optional<HandleSet> only = {};
  bool ended = false;                  // all frames are tracked
  std::deque<std::int64_t> held = {};  // tracked, and not shown yet
  TextWork text_work = {};             // on each frame

  bool is_done() const { return ended && held.empty(); }
};

// What a step of it came to: the frame that has to be given before it can go on, or the frame to
// show, or neither.
struct PropagationStep {
  std::optional<std::int64_t> wanted = {}, ready = {};
};

// A session for callers: one call at a time. The order of prompts, memories and tracking is here;
// SessionRules, TrackedObjects and VideoTexts say what each does. Frames are given when they are
// asked for.
class VideoPredictor {
 public:
  VideoPredictor(std::shared_ptr<const Model> model, int num_threads, const VideoOptions& options,
                 std::optional<std::int64_t> num_frames)
      : session_(std::move(model), num_threads, options, num_frames), texts_(session_) {
    commit();
  }

  // These never change.
  const Model& model() const { return session_.model(); }
  int num_threads() const { return session_.num_threads(); }
  std::int64_t side() const { return session_.step().side(); }
  bool wants_squares() const { return session_.step().wants_squares(); }

  // Returns work(session), which may change the session: one that fails leaves it as it was.
  template <class Work>
  auto change(const Work& work) {
    const InUse guard(busy_, "VideoPredictor");
    SessionState before = session_.state();
    try {
      return work(session_);
    } catch (...) {
      session_.restore(std::move(before));
      throw;
    }
  }
  // Returns work(session), which changes nothing but scratch memory.
  template <class Work>
  auto use(const Work& work) {
    const InUse guard(busy_, "VideoPredictor");
    return work(session_);
  }
  // The same with the texts.
  template <class Work>
  auto use_texts(const Work& work) {
    const InUse guard(busy_, "VideoPredictor");
    return work(texts_);
  }

  // Another session that goes on from here by itself. The two share tensors that never change, and
  // no encoded frames: those are asked for again. UnsupportedError if there are texts.
  std::unique_ptr<VideoPredictor> clone();

  // ---- calls of users, which consist of several of what follows. What was done since `begin`
  // stays after `commit`; the next `begin` undoes it otherwise.
  void begin();
  void commit();
  // What is committed. Any thread may ask while a call runs.
  struct Published {
    std::int64_t num_pushed = 0;
    std::optional<Size> orig_hw = {};
    std::vector<std::int64_t> handles = {};      // of objects that prompts show
    std::vector<std::int64_t> found_names = {};  // of those that texts name
  };
  Published published() const;

  // ---- prompts. A new object takes the next number.
  std::int64_t next_handle() const { return next_handle_; }
  // What errors call an object.
  void set_label(std::int64_t handle, std::string label) { labels_[handle] = std::move(label); }
  bool add_points(const PointPrompt& prompt);
  bool add_mask(std::int64_t frame, std::int64_t handle, ConstView mask);
  // One without prompts.
  void add_object(std::int64_t handle);
  // One that prompts show, or that a text names.
  void remove_object(std::int64_t handle);
  // Points on an object that a text named: see VideoTexts::refine.
  void refine(const PointPrompt& prompt, bool may_be_new);
  // Numbers of objects begin with 0 again.
  void reset();
  // Searches a frame for the last text.
  void search(std::int64_t frame);

  // ---- frames
  std::int64_t num_pushed() const { return num_pushed_; }
  // Encodes the memory of frames with new prompts. Returns the frame that has to be given first.
  // Raises StateError when there is nothing to track, or, unless `allow_unprompted`, an object
  // without prompts.
  std::optional<std::int64_t> prepare(bool allow_unprompted = false);
  // After `prepare`. By default it begins at the first frame with a prompt or a text.
  struct Range {
    std::optional<std::int64_t> start, count;
    bool reverse = false;
    bool waits = false;  // prompts and objects given meanwhile wait for the next propagation
  };
  Propagation propagation(const Range& range);
  // Of texts alone, and on all frames what upstream does after what was done before. In reverse it
  // begins before `start`, which is by default the first frame with results.
  Propagation text_propagation(const Range& range);
  // Goes on by a frame at most.
  PropagationStep next(Propagation& propagation);
  // After `prepare`: the next frame of a stream, and all that is tracked on it.
  void push(const ImageView& image);
  // A session on disk, which has no texts.
  void adopt_counts(std::int64_t num_pushed);

 private:
  struct State {
    SessionState session;
    VideoTexts::State texts;
    std::int64_t next_handle = 0, num_pushed = 0;
  };
  std::optional<std::int64_t> prepare_session(bool allow_unprompted);
  std::int64_t first_frame() const;
  bool has_objects() const;
  void track(const Propagation& propagation);
  void take_handle(std::int64_t handle) { next_handle_ = std::max(next_handle_, handle + 1); }

  TrackedObjects session_;
  VideoTexts texts_;
  std::int64_t next_handle_ = 0, num_pushed_ = 0;
  std::map<std::int64_t, std::string> labels_;
  State committed_;
  bool is_open_ = false;  // a call has begun
  mutable std::mutex publishing_;
  Published published_;
  BusyFlag busy_;
};

}  // namespace sam_rlx
