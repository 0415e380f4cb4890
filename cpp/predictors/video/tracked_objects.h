#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/image.h"
#include "predictors/video/object_rules.h"
#include "predictors/video/object_step.h"
#include "predictors/video/session_state.h"

namespace sam_rlx {

using HandleSet = std::set<std::int64_t>;

// Points on an object of a frame.
struct PointPrompt {
  std::int64_t frame = 0, handle = 0;
  std::span<const double> coords = {};  // (N, 2) pixels of the video
  // (N,): 1, 0, -1; 2 and 3 are corners of a box; others tell nothing about the point
  std::span<const std::int32_t> labels = {};
  bool clear_old_points = true;
  bool normalize_coords = true;  // false: coordinates are 0 to 1
};

// Which output of a frame is shown.
enum class Source {
  kTracked,     // of tracking
  kCond,        // of new prompts on conditioning frames first
  kCorrection,  // of new prompts on other frames first
  kLatest,      // of new prompts of any kind first
};

// The objects of a session, and what prompts and frames do to them. A call that fails may stop
// halfway: whoever calls puts the state back. Upstream: sam2/sam2_video_predictor.py,
// SAM2VideoPredictor; sam3/model/sam3_tracking_predictor.py, Sam3TrackerPredictor.
class TrackedObjects {
 public:
  TrackedObjects(std::shared_ptr<const Model> model, int num_threads, const VideoOptions& options,
                 std::optional<std::int64_t> num_frames);

  const ObjectStep& step() const { return step_; }
  const Model& model() const { return step_.model(); }
  const VideoOptions& options() const { return step_.options(); }
  int num_threads() const { return num_threads_; }

  const SessionState& state() const { return state_; }
  void restore(SessionState state) noexcept { state_ = std::move(state); }
  const std::vector<SessionState::Object>& objects() const { return state_.objects; }
  // Null: there is none.
  const TrackedObject* find(std::int64_t handle) const { return state_.find(handle); }
  // Objects, buckets and size of a session that was saved.
  void adopt(std::vector<SessionState::Object> objects, std::vector<SessionState::Object> buckets,
             std::optional<Size> orig_hw);

  // ---- frames. All have the size of the first one; an image that was resized before comes with
  // the size that it had. Of the last two, what the encoder made of them is kept.
  const std::optional<Size>& orig_hw() const { return state_.orig_hw; }
  bool has_frame(std::int64_t index) const;
  void set_frame(std::int64_t index, const ImageView& image, std::optional<Size> orig_hw);

  // ---- prompts. Their frame is at hand. An object that is not known is made.
  // Both return whether the output is one of a conditioning frame.
  bool add_points(const PointPrompt& prompt);
  // mask (H, W) of zeros and ones; any size.
  bool add_mask(std::int64_t frame, std::int64_t handle, ConstView mask);
  // An object without prompts; nothing happens if it is known.
  void add_object(std::int64_t handle) { object_of(handle, {}); }
  void clear_prompts(std::int64_t frame, std::int64_t handle);
  // Whether an object has a prompt there since the last propagation that makes it a conditioning
  // frame.
  bool has_new_prompt(std::int64_t frame) const;
  void remove(std::int64_t handle);
  void reset();

  // ---- tracking. Before it, the memory of each frame with a new prompt is encoded.
  std::vector<std::int64_t> pending_frames() const;  // ascending
  void encode_pending(std::int64_t frame);
  // What prompts gave becomes what tracking reads.
  void preflight();
  // Whether an object has no output of a prompt there: the frame has to be at hand. Of the objects
  // that prompts show: all, or those with these numbers only.
  bool needs_frame(std::int64_t index, const HandleSet* only = nullptr) const;
  void track(std::int64_t frame, bool reverse, const HandleSet* only = nullptr);

  // ---- objects that texts name, which other calls on all objects leave out. SAM 3 only.
  // From here on frames are encoded for the detector too.
  void enable_detector();
  const EncodedFrame& frame_for_detector(std::int64_t index);
  // A new object of a text, or a new prompt for it. mask (S, S) of zeros and ones.
  struct Masklet {
    std::int64_t frame = 0, handle = 0;
    std::int64_t owner = 0;     // the text
    std::int64_t together = 1;  // new objects of the text on the frame
  };
  void add_masklet(const Masklet& masklet, ConstView mask);
  // Makes an object that was clicked one of a text.
  void give_to_text(std::int64_t handle);
  void track_masklets(const TrackStep& step);
  // Memory of the frame's outputs, made of masks (K, S, S) of logits instead of their own; an
  // object is there where its mask is not empty.
  void remember_masklets(std::int64_t frame, std::span<const std::int64_t> handles,
                         ConstView masks);

  // ---- outputs of a frame, of the objects that prompts show and that have one there.
  struct Shown {
    std::int64_t handle;
    const FrameOutput* output;
  };
  std::vector<Shown> shown(std::int64_t frame, Source source) const;

  // For work that belongs to the session: its scratch memory and threads.
  Context context();
  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  SessionState::Object& known_object(std::int64_t handle, const char* where);
  TrackedObject& object_of(std::int64_t handle, const ObjectRules::Arrival& arrival,
                           std::int64_t owner = TrackedObject::kPrompts);
  bool show_mask(std::int64_t index, std::int64_t handle, ConstView mask,
                 const ObjectRules::Arrival& arrival, std::int64_t owner);
  EncodedFrame& cached_frame(std::int64_t index, const char* where);
  ClickedPoints to_model_frame(const PointPrompt& prompt) const;
  ClickedPoints all_points(const PointPrompt& prompt, const TrackedObject& object) const;
  std::vector<std::int64_t> prompted_handles(const HandleSet* only) const;
  void track_objects(const TrackStep& step);
  std::set<std::int64_t> frames_to_choose(const TrackedObject& object, std::int64_t frame) const;
  void drop_old_outputs(TrackedObject& object, std::int64_t frame) const;

  ObjectStep step_;
  std::unique_ptr<const ObjectRules> rules_;
  int num_threads_;
  Workspace workspace_;
  FramePool pool_;
  SessionState state_;
  void (*poll_interrupt_)() = nullptr;
  Trace* trace_ = nullptr;
};

}  // namespace sam_rlx
