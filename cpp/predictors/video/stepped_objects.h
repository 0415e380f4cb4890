#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/context.h"
#include "predictors/video/frame_cache.h"
#include "predictors/video/object_step.h"
#include "predictors/video/tracked_object.h"

namespace sam_rlx {

// Objects of a video whose caller keeps the prompts and says frame by frame what is run. A call
// that fails changes nothing. Upstream, whose rules of memory these are: transformers,
// models/sam2_video/modeling_sam2_video.py, Sam2VideoModel.forward, and its siblings.
class SteppedObjects {
 public:
  SteppedObjects(std::shared_ptr<const Model> model, int num_threads, bool bfloat16_memory);

  const ObjectStep& step() const { return step_; }
  std::int64_t mask_side() const { return step_.output_shapes().low_res_mask[0]; }
  const std::vector<TrackedObject>& objects() const { return objects_; }
  Context context();

  // ---- frames. Of the last two, what the encoder made of them is kept.
  bool has_frame(std::int64_t index) const { return frames_.peek(index) != nullptr; }
  // pixels (3, S, S), normalized.
  void set_frame(std::int64_t index, ConstView pixels);
  const EncodedFrame* frame(std::int64_t index) const { return frames_.peek(index); }
  void forget_frames() { frames_ = {}; }
  // Frames from now on are encoded for texts, too.
  void enable_detector() { with_detector_ = true; }

  // ---- objects have the numbers from 0
  void add_object() { objects_.emplace_back(); }
  // Those behind it move up.
  void remove_object(std::size_t number);
  void reset() { objects_.clear(); }
  // Back to what `objects` were.
  void restore(std::vector<TrackedObject> objects) noexcept { objects_ = std::move(objects); }

  // What an object has on the frame of a call. `is_new`: it has prompts, on whatever frame, that
  // were not run yet; else it is tracked, and none is read.
  struct Input {
    bool is_new = false;
    std::optional<ClickedPoints> points = {};
    ConstView mask = {};  // (S, S) of zeros and ones; empty: none
  };
  struct Call {
    std::int64_t frame = 0;
    std::optional<std::int64_t> num_frames = {};  // none: a stream
    bool reverse = false;
    bool remember = true;  // memories are encoded
    std::span<const Input> inputs = {};
  };
  // Whether a call runs anything: its frame has to be at hand then.
  bool needs_frame(std::int64_t frame, std::span<const Input> inputs) const;
  // Outputs of all objects on the frame. StateError: an object without any prompt that was run, or
  // a memory that was not encoded.
  std::vector<FrameOutputPtr> run(const Call& call);

  // What a call left on a frame, changed: a frame that was tracked becomes one with a prompt, and
  // memories are made of masks (K, 4g, 4g) of logits instead. An object without anything above 0 is
  // remembered as absent.
  void condition(std::size_t number, std::int64_t frame);
  void remember(std::int64_t frame, ConstView masks);

  // Others that go on from here by themselves. They share tensors that never change, and no frames.
  std::unique_ptr<SteppedObjects> clone() const;

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }

 private:
  // An output that a call made.
  struct Fresh {
    std::size_t number = 0;
    bool is_cond = false, reverse = false;
    const Input* input = nullptr;
    FrameOutput output = {};

    bool is_prompted() const { return input->points.has_value() || input->mask.data != nullptr; }
  };

  bool is_known(std::size_t number, std::int64_t frame, const Input& input) const {
    return !input.is_new && objects_[number].cond_frame_outputs.find(frame) != nullptr;
  }
  FrameOutput run_object(Context& ctx, const Call& call, EncodedFrame& frame,
                         const Fresh& fresh) const;
  void check_memories(const ObjectStep::Target& target) const;
  void encode_memories(Context& ctx, const EncodedFrame& frame, std::span<Fresh> all) const;
  void keep(const Call& call, std::span<Fresh> all);

  ObjectStep step_;
  int num_threads_;
  bool with_detector_ = false;
  Workspace workspace_;
  FramePool pool_;
  FrameCache frames_;
  std::vector<TrackedObject> objects_;
  void (*poll_interrupt_)() = nullptr;
};

}  // namespace sam_rlx
