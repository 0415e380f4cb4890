#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/named_tensors.h"
#include "predictors/video/frame_result.h"
#include "predictors/video/frame_source.h"
#include "predictors/video/tracked_objects.h"
#include "predictors/video/video_texts.h"

namespace sam_rlx {

// A mask (H, W) of zeros and ones on an object of a frame.
struct MaskPrompt {
  std::int64_t frame = 0, handle = 0;
  ConstView mask = {};
  bool any_size = false;  // else that of the video
};

// Texts that are looked for from a frame on, each as if it were the only one.
struct TextPrompt {
  struct Text {
    std::string text;
    MaskletPrompt prompt;
  };
  std::vector<Text> texts;
  MaskletConfig config;
  // Of each text, on the frame.
  std::optional<MaskletExamples> examples = {};
  // Searched at once. None: 0, and of a stream the next one, which is not there yet.
  std::optional<std::int64_t> frame = {};
  bool anew = false;  // all else is forgotten before
};

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
};

// Objects through the frames of one video: of prompts and of texts. It asks its source for frames,
// one at a time. A call that fails leaves the session as it was; frames that it has tracked before
// stay tracked. One call at a time: whoever binds it sees to that. Upstream:
// sam2/sam2_video_predictor.py, SAM2VideoPredictor; sam3/model/sam3_tracking_predictor.py,
// Sam3TrackerPredictor; sam3/model/sam3_video_inference.py. The family's row says where they
// differ.
class VideoSession {
 public:
  // Without a source, frames are pushed.
  VideoSession(std::shared_ptr<const Model> model, int num_threads, const VideoOptions& options,
               std::unique_ptr<FrameSource> source);

  // These never change.
  const Model& model() const { return objects_.model(); }
  int num_threads() const { return objects_.num_threads(); }
  std::int64_t side() const { return objects_.step().side(); }
  std::optional<std::int64_t> num_frames() const { return objects_.step().num_frames(); }

  // ---- prompts. A new object takes the next number; `label` is what errors call it. Each returns
  // what there is on the frame then.
  std::int64_t next_handle() const { return next_handle_; }
  void set_label(std::int64_t handle, std::string label) { labels_[handle] = std::move(label); }
  // No object that a text finds gets a name below this.
  void reserve_names(std::int64_t end) { texts_.reserve_names(end); }
  // Points on an object that a text named correct it, on a frame that was tracked. With `of_text` a
  // new object is one of the last text, and its number is its name.
  FrameResult add_points(const PointPrompt& prompt, Wants wants, bool of_text = false);
  FrameResult add_mask(const MaskPrompt& prompt, Wants wants);
  FrameResult add_text(const TextPrompt& prompt, Wants wants);
  // An object without prompts; nothing happens if it is known.
  void add_object(std::int64_t handle);
  FrameResult clear_prompts(std::int64_t frame, std::int64_t handle, Wants wants);
  // One that prompts show, or that a text names. Returns the frames where it had prompts, as they
  // are without it.
  std::vector<FrameResult> remove_object(std::int64_t handle, Wants wants);
  // Forgets objects and texts. Their numbers begin with 0 again; frames stay.
  void reset();

  // ---- frames
  std::int64_t num_pushed() const { return num_pushed_; }
  // Makes sure that a frame is at hand.
  void load(std::int64_t index);
  // Encodes the memory of frames with new prompts. Raises StateError when there is nothing to
  // track, or, unless `allow_unprompted`, an object without prompts.
  void prepare(bool allow_unprompted = false);
  // By default it begins at the first frame with a prompt or a text.
  struct Range {
    std::optional<std::int64_t> start, count;
    bool reverse = false;
    // Prompts and objects given meanwhile wait for the next propagation, and `prepare` was called
    // before.
    bool waits = false;
    bool logits = false;  // are asked for: StateError if there are texts
  };
  Propagation propagation(const Range& range);
  // Of texts alone, and on all frames what upstream does after what was done before. In reverse it
  // begins before `start`, which is by default the first frame with results.
  Propagation text_propagation(const Range& range);
  // Goes on to the next frame that can be shown. None: the end.
  std::optional<FrameResult> next(Propagation& propagation, Wants wants);
  // The next frame of a stream, and all that is tracked on it.
  FrameResult push(const ImageView& image, Wants wants);
  // What there is on a frame. No network runs.
  FrameResult result(std::int64_t frame, Source source, Wants wants);
  // The same after a change of prompts: new prompts of conditioning frames first, if there are any.
  FrameResult prompted_result(std::int64_t frame, Wants wants);

  // ---- what there is
  const TrackedObjects& objects() const { return objects_; }
  const VideoTexts& texts() const { return texts_; }
  void note(TextAction action) { texts_.note(std::move(action)); }

  // Another session that goes on from here by itself, with a source of its own. The two share
  // tensors that never change, and no encoded frames. UnsupportedError if there are texts.
  std::unique_ptr<VideoSession> clone(std::unique_ptr<FrameSource> source) const;
  // What a session is on disk, and a session that was just made becomes what it was. Both raise
  // UnsupportedError if there are texts; what is damaged raises CheckpointError and changes
  // nothing.
  NamedTensors save();
  void adopt(const NamedTensors& saved);

  void set_poll_interrupt(void (*poll)()) { objects_.set_poll_interrupt(poll); }
  void set_trace(Trace* trace) { objects_.set_trace(trace); }

 private:
  // All that a call changes.
  struct State {
    SessionState objects;
    VideoTexts::State texts;
    std::int64_t next_handle = 0, num_pushed = 0;
  };
  // Puts the session back, unless the call was done.
  class Undo {
   public:
    explicit Undo(VideoSession& session) : session_(session), before_(session.state()) {}
    ~Undo() {
      if (!done_) session_.restore(std::move(before_));
    }
    void done() { done_ = true; }
    Undo(const Undo&) = delete;
    Undo& operator=(const Undo&) = delete;

   private:
    VideoSession& session_;
    State before_;
    bool done_ = false;
  };
  // Returns work(), which is undone if it fails, and if the user stopped it at its end.
  template <class Work>
  auto change(const Work& work) {
    Undo undo(*this);
    auto result = work();
    objects_.context().check_interrupt();
    undo.done();
    return result;
  }

  State state() const;
  void restore(State state) noexcept;
  void forget_all();
  bool has_objects() const;
  void take_handle(std::int64_t handle) { next_handle_ = std::max(next_handle_, handle + 1); }
  void check_prompted(bool allow_unprompted) const;
  bool read(std::int64_t index);
  void need(std::int64_t index);
  void encode_prompts(bool allow_unprompted);
  std::int64_t first_frame() const;
  void step(const Propagation& propagation);
  bool track_next(Propagation& propagation);
  FrameResult result_of(std::int64_t frame, Source source, Wants wants);
  void draw_objects(const std::vector<TrackedObjects::Shown>& shown, Wants wants,
                    FrameResult& result);
  void refuse_logits(bool logits) const;

  std::unique_ptr<FrameSource> source_;
  TrackedObjects objects_;
  VideoTexts texts_;
  std::int64_t next_handle_ = 0, num_pushed_ = 0;
  std::map<std::int64_t, std::string> labels_;
};

}  // namespace sam_rlx
