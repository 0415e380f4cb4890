#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/context.h"
#include "core/image.h"
#include "layers/fields.h"
#include "loading/model.h"
#include "masks/geometry.h"
#include "models/sam2/memory_bank.h"
#include "predictors/image/image_front_end.h"
#include "predictors/video/frame_cache.h"
#include "predictors/video/tracked_object.h"

namespace sam_rlx {

struct VideoOptions {
  std::int64_t fill_hole_area = 8;  // 0: holes stay
  bool non_overlap_masks = false;
  // A prompt on a frame that was tracked already makes it a conditioning frame, so that the
  // correction outlives the next propagation. Upstream's default is false for SAM 2; SAM 3 knows
  // true only.
  bool add_all_frames_to_correct_as_cond = true;
  // SAM 3 only: of tracked frames, those that show the objects well are remembered, not the last
  // ones.
  bool use_memory_selection = false;
  // How frames become as large as the model wants them. Not given: as upstream's loader of such
  // frames does.
  std::optional<Resize> resize = {};
  FrameKind frames = FrameKind::kImages;
  // Upstream rounds stored memory to bfloat16.
  bool bfloat16_memory = false;
  // Outputs of so many frames around the last one are kept, and at least those that tracking
  // reads; outputs near prompts too. -1: all, as upstream.
  std::int64_t history = 64;
  // Frames come one by one and are never asked for again: only what tracking reads is kept.
  bool streaming = false;

  template <class V>
  void fields(V& v) {
    v("fill_hole_area", fill_hole_area, 0, kNoLimit, "fill holes of at most so many pixels");
    v("non_overlap_masks", non_overlap_masks,
      "where masks overlap, the one with the largest logit stays");
    v("add_all_frames_to_correct_as_cond", add_all_frames_to_correct_as_cond,
      "a prompt on a frame that was tracked before outlives the next propagation");
    v("use_memory_selection", use_memory_selection,
      "remember the frames that show the objects well, not the last ones");
    v("bfloat16_memory", bfloat16_memory, "round stored memory to bfloat16");
    v("history", history, -1, kNoLimit, "keep results of so many frames; -1: all");
    v("streaming", streaming, "frames are never asked for again");
  }
};

// All that calls change in a session. Copies are cheap: they share tensors and frames.
struct SessionState {
  std::vector<ValuePtr<TrackedObject>> objects;  // in the order of their first prompts
  std::int64_t open_batch = 0;                   // of objects to come
  std::optional<Size> orig_hw;
  bool with_detector = false;
  FrameCache frames;
};

using HandleSet = std::set<std::int64_t>;

// Objects through the frames of one video. Frames are given one at a time and are not kept: of the
// last two, what the encoder made of them. VideoPredictor sees that there is one call at a time,
// and that a failed one leaves the session as it was: here it may stop halfway. Upstream:
// sam2/sam2_video_predictor.py, SAM2VideoPredictor; sam3/model/sam3_tracking_predictor.py,
// Sam3TrackerPredictor. SessionRules says where they differ.
class VideoSession {
 public:
  VideoSession(std::shared_ptr<const Model> model, int num_threads, const VideoOptions& options);

  const VideoOptions& options() const { return options_; }
  int num_threads() const { return num_threads_; }
  // Whether objects that were prompted before the same propagation influence each other.
  bool is_batched() const { return rules().batched; }
  std::int64_t side() const { return front_end_->side(); }
  // Whether frames come as squares of that side, resized where they were decoded.
  bool wants_squares() const {
    return !options_.resize && options_.frames == FrameKind::kClip && rules().resizes.clip_decoder;
  }
  const std::optional<Size>& orig_hw() const { return state_.orig_hw; }
  std::optional<std::int64_t> num_frames() const { return num_frames_; }
  // Known before the first frame, or never.
  void set_num_frames(std::optional<std::int64_t> count);

  const SessionState& state() const { return state_; }
  // Back to what another copy of the session's state was.
  void restore(SessionState state) noexcept { state_ = std::move(state); }

  // ---- frames. All frames have the size of the first one; an image that was resized before
  // comes with the size that it had.
  bool has_frame(std::int64_t index) const;
  void set_frame(std::int64_t index, const ImageView& image, std::optional<Size> orig_hw);

  // ---- prompts. Their frame is in the cache. An object that is not known is made.
  struct PointPrompt {
    std::int64_t frame = 0, handle = 0;
    std::span<const double> coords = {};  // (N, 2) pixels of the video
    // (N,): 1, 0, -1; 2 and 3 are corners of a box; others tell nothing about the point
    std::span<const std::int32_t> labels = {};
    bool clear_old_points = true;
    bool normalize_coords = true;  // false: coordinates are 0 to 1
  };
  // Both return whether the output is one of a conditioning frame.
  bool add_points(const PointPrompt& prompt);
  // mask (H, W) of zeros and ones; any size.
  bool add_mask(std::int64_t frame, std::int64_t handle, ConstView mask);
  // An object without prompts; nothing happens if it is known.
  void add_object(std::int64_t handle) { object_of(handle); }
  // Returns has_new_prompt.
  bool clear_prompts(std::int64_t frame, std::int64_t handle);
  // Whether an object has a prompt there since the last propagation that makes it a conditioning
  // frame.
  bool has_new_prompt(std::int64_t frame) const;
  void remove_object(std::int64_t handle);
  void reset();

  // ---- tracking. Before it, the memory of each frame with a new prompt is encoded.
  std::vector<std::int64_t> pending_frames() const;  // ascending
  void encode_pending(std::int64_t frame);
  void preflight();
  // Whether an object has no output of a prompt there: the frame has to be in the cache. Of the
  // objects that prompts show: all, or those with these numbers only.
  bool needs_frame(std::int64_t index, const HandleSet* only = nullptr) const;
  void track(std::int64_t frame, bool reverse, const HandleSet* only = nullptr);

  // ---- objects that texts name, which other calls on all objects leave out. SAM 3 only.
  // From here on frames are encoded for the detector too.
  void enable_detector();
  const EncodedFrame& frame_for_detector(std::int64_t index);
  // A new object of a text, or a new prompt for it. mask (S, S) of zeros and ones.
  void add_masklet(std::int64_t frame, std::int64_t handle, ConstView mask);
  // Makes an object that was clicked one of a text.
  void claim(std::int64_t handle);
  struct MaskletStep {
    std::int64_t frame = 0;
    bool reverse = false;
    std::span<const std::int64_t> handles;
    bool run_mem_encoder = false;  // else `remember_masklets` follows
  };
  void track_masklets(const MaskletStep& step);
  // Memory of the frame's outputs, made of masks (K, S, S) of logits instead of their own; an
  // object is there where its mask is not empty.
  void remember_masklets(std::int64_t frame, std::span<const std::int64_t> handles,
                         ConstView masks);
  // Null: there is none.
  const TrackedObject* find_object(std::int64_t handle) const { return object_named(handle); }

  // ---- masks of a frame, of the objects that have one there.
  enum class Source {
    kTracked,     // of tracking
    kCond,        // of new prompts on conditioning frames first
    kCorrection,  // of new prompts on other frames first
    kLatest,      // of new prompts of any kind first
  };
  struct Shown {
    std::int64_t handle;
    const FrameOutput* output;
  };
  std::vector<Shown> shown(std::int64_t frame, Source source) const;
  void upscale(const std::vector<Shown>& objects, View out);            // (K, H, W)
  void binarize(const std::vector<Shown>& objects, std::uint8_t* out);  // (K, H, W)

  const std::vector<ValuePtr<TrackedObject>>& objects() const { return state_.objects; }
  // Another session's objects and size. Its frames are not in the cache.
  void adopt(std::vector<ValuePtr<TrackedObject>> objects, std::optional<Size> orig_hw);
  // Of the tensors of an output.
  struct OutputShapes {
    Shape maskmem_features, obj_ptr, low_res_mask;
  };
  OutputShapes output_shapes() const;

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  // For work that belongs to the session: its scratch memory and threads.
  Context context();
  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  // One object on one frame.
  struct Step {
    EncodedFrame& frame;
    const TrackedObject& object;
    bool is_init_cond_frame = false;  // a prompt on a frame that was never tracked
    bool reverse = false;
  };
  const SessionRules& rules() const { return model_->family().session; }
  const sam2::Sam2Heads& heads() const { return front_end_->heads(); }
  TrackedObject* object_named(std::int64_t handle) const;
  std::vector<TrackedObject*> prompted_objects(const HandleSet* only) const;
  TrackedObject& known_object(std::int64_t handle, const char* where) const;
  TrackedObject& object_of(std::int64_t handle);
  EncodedFrame& cached_frame(std::int64_t index, const char* where);
  ClickedPoints to_model_frame(const PointPrompt& prompt) const;
  ClickedPoints all_points(const PointPrompt& prompt, const TrackedObject& object) const;
  View condition(Context& ctx, const Step& step);
  sam2::MemoryChoice choose_memory(const Step& step) const;
  FrameOutputPtr keep(const sam2::SamOutputs& outputs) const;
  void keep_memory(Context& ctx, const EncodedFrame& frame, ConstView mask, bool from_prompt,
                   FrameOutput& output);
  FrameOutputPtr run_points(Context& ctx, const Step& step, const ClickedPoints& points,
                            const FrameOutput* before);
  FrameOutputPtr run_mask(Context& ctx, const EncodedFrame& frame, ConstView mask);
  FrameOutputPtr run_tracking(Context& ctx, const Step& step, bool run_mem_encoder);
  void track_objects(std::span<TrackedObject* const> objects, std::int64_t frame, bool reverse,
                     bool run_mem_encoder);
  std::vector<std::int64_t> choose_frames(const TrackedObject& object, std::int64_t frame,
                                          bool reverse) const;
  void drop_old_outputs(TrackedObject& object, std::int64_t frame);
  std::set<std::int64_t> frames_to_choose(const TrackedObject& object, std::int64_t frame) const;
  MaskGeometry mask_geometry() const;
  void logits_of(Context& ctx, const FrameOutput& output, View out) const;

  // What only batches do: video_batch.cpp.
  std::vector<TrackedObject*> members_of(std::int64_t batch) const;
  FrameOutputPtr run_video_mask(Context& ctx, const EncodedFrame& frame, ConstView mask);
  void erase_from_others(const TrackedObject& object, std::int64_t frame);
  void encode_batch(Context& ctx, const EncodedFrame& frame, std::int64_t batch);
  void close_batch();
  void outdate_around(TrackedObject& object, std::int64_t frame);
  void downgrade_batch(std::int64_t batch, std::int64_t frame);
  void leave_batch(TrackedObject& object);
  void score_frame(std::int64_t batch, std::int64_t frame);
  void score_batch(std::int64_t batch);

  std::shared_ptr<const Model> model_;
  VideoOptions options_;
  int num_threads_;
  std::unique_ptr<const ImageFrontEnd> front_end_;
  Tensor maskmem_pos_enc_;  // (g, g, mem_dim)
  Workspace workspace_;
  FramePool pool_;
  std::optional<std::int64_t> num_frames_;
  SessionState state_;
  void (*poll_interrupt_)() = nullptr;
  Trace* trace_ = nullptr;
};

}  // namespace sam_rlx
