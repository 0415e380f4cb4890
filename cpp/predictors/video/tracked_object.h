#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "predictors/video/by_frame.h"
#include "predictors/video/rule_state.h"

namespace sam_rlx {

// A tensor that the copies of an output share: it is complete when it gets here, and never changes.
class SharedTensor {
 public:
  SharedTensor() = default;
  SharedTensor(Tensor tensor)  // NOLINT(runtime/explicit)
      : tensor_(std::make_shared<const Tensor>(std::move(tensor))) {}

  bool empty() const { return tensor_ == nullptr; }
  const float* data() const { return tensor_->data(); }
  const Shape& shape() const { return tensor_->shape(); }
  std::int64_t numel() const { return tensor_->numel(); }
  ConstView view() const { return tensor_->view(); }
  operator ConstView() const { return view(); }  // NOLINT(runtime/explicit)

 private:
  std::shared_ptr<const Tensor> tensor_;
};

// A value that copies share until one of them writes. They belong to one thread at a time.
template <class T>
class CopyOnWrite {
 public:
  explicit CopyOnWrite(T value) : value_(std::make_shared<T>(std::move(value))) {}

  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  T& write() {
    if (value_.use_count() > 1) value_ = std::make_shared<T>(*value_);
    return *value_;
  }
  // One that shares nothing, for another thread.
  CopyOnWrite clone() const { return CopyOnWrite(*value_); }

 private:
  std::shared_ptr<T> value_;
};

// What one frame gave for one object. One that was kept never changes: another takes its position.
struct FrameOutput {
  SharedTensor maskmem_features = {};  // a memory; empty: not encoded
  SharedTensor obj_ptr = {};           // (C,); of a bucket (slots, C)
  SharedTensor image_features = {};    // of a bucket: the map of the frame
  SharedTensor low_res_mask = {};      // (4g, 4g) logits, small holes filled
  float object_score_logits = 0.0F;
  float iou_prediction = 0.0F;
  float eff_iou_score = -1.0F;  // of the frame, for the selection of memory; below 0: none
  bool was_prompted = false;    // its frame conditioned others, until all of its prompts went
  bool is_outdated = false;     // no prompt of a later click: a prompt nearby changed the object
  bool is_in_bucket = false;    // the bucket of the object has the memory
  bool is_added = false;        // a memory rule made the frame a conditioning one: it has no prompt
  RuleStatePtr rule_state = {};  // of a memory rule
  // A mask given as prompt, (H, W) of the video, that has not become a low_res_mask yet. Or null.
  std::shared_ptr<const std::vector<std::uint8_t>> video_mask = {};

  bool has_memory() const { return is_in_bucket || !maskmem_features.empty(); }
};
using FrameOutputPtr = std::shared_ptr<const FrameOutput>;

// Outputs of an object. Each knows when its frame came first: upstream's dictionaries keep that
// order, and memory is attended to in it.
class FrameOutputs {
 public:
  struct Arrived {
    FrameOutputPtr output;
    std::int64_t arrival;
  };

  // Null: there is none.
  const FrameOutput* find(std::int64_t frame) const {
    const Arrived* const found = outputs_.find(frame);
    return found == nullptr ? nullptr : found->output.get();
  }
  FrameOutputPtr share(std::int64_t frame) const {
    const Arrived* const found = outputs_.find(frame);
    return found == nullptr ? nullptr : found->output;
  }
  // A frame that is known keeps its arrival.
  void set(std::int64_t frame, FrameOutputPtr output);
  void set(std::int64_t frame, FrameOutput output) {
    set(frame, std::make_shared<const FrameOutput>(std::move(output)));
  }
  // Replaces an output, if there is one, by a copy that `change` gets.
  template <class Change>
  void change(std::int64_t frame, const Change& change) {
    if (Arrived* const found = outputs_.find(frame)) {
      FrameOutput copy = *found->output;
      change(copy);
      found->output = std::make_shared<const FrameOutput>(std::move(copy));
    }
  }
  // Null: there was none.
  FrameOutputPtr take(std::int64_t frame);
  void erase(std::int64_t frame) { outputs_.erase(frame); }
  template <class Is>
  void erase_if(const Is& is) {
    outputs_.erase_if([&](const auto& entry) { return is(entry.frame); });
  }
  void clear() { outputs_.clear(); }

  bool empty() const { return outputs_.empty(); }
  std::vector<std::int64_t> frames_by_arrival() const;
  // Entries, ascending.
  auto begin() const { return outputs_.begin(); }
  auto end() const { return outputs_.end(); }
  auto from(std::int64_t frame) const { return outputs_.from(frame); }

 private:
  ByFrame<Arrived> outputs_;
  std::int64_t next_arrival_ = 0;
};

// Points in pixels of the network's input, already moved by half a pixel; a box is two of them.
struct ClickedPoints {
  std::vector<double> coords;        // (N, 2)
  std::vector<std::int32_t> labels;  // (N,)
};

// One object of a video and all it left behind. Upstream keeps these in the dictionaries of its
// inference state: sam2/sam2_video_predictor.py.
struct TrackedObject {
  static constexpr std::int64_t kPrompts = -1;

  std::int64_t handle = 0;
  std::int64_t batch = 0;  // objects of one number run as one batch; see ObjectBatches
  // Of the batch, below 0: none yet; of a bucket the first one of it. See ObjectBuckets.
  std::int64_t slot = -1;
  std::int64_t end_slot = 0;             // of a bucket: those of the batch before it were given
  std::int64_t owner = kPrompts;         // else the text that found it
  bool is_masklet = false;               // of a text, which says when it is tracked
  ByFrame<ClickedPoints> points = {};    // prompts
  FrameSet mask_frames = {};             // frames whose prompt is a mask
  FrameOutputs cond_frame_outputs = {};  // of frames with prompts, or that a memory rule added
  FrameOutputs non_cond_frame_outputs = {};
  // Outputs of prompts since the last propagation.
  FrameOutputs temp_cond = {}, temp_non_cond = {};
  ByFrame<bool> frames_tracked = {};  // to whether it was in reverse

  // The output of tracking: as a frame with prompts first. Null: none.
  const FrameOutput* tracked_output(std::int64_t frame) const;
  // The same after that of a prompt.
  const FrameOutput* latest_output(std::int64_t frame, bool is_cond) const;
  bool has_slot() const { return slot >= 0; }
  // Whether the frame keeps the output of a prompt when it is tracked.
  bool keeps_output(std::int64_t frame) const {
    const FrameOutput* const output = cond_frame_outputs.find(frame);
    return output != nullptr && !output->is_added;
  }
  bool has_prompt() const { return !cond_frame_outputs.empty() || !temp_cond.empty(); }
  bool is_prompted(std::int64_t frame) const {
    return points.contains(frame) || mask_frames.contains(frame);
  }
  // Frames with prompts.
  FrameSet prompted_frames() const;
  // Forgets the prompts of a frame, and what they gave since the last propagation.
  void clear_prompts(std::int64_t frame);
  // What earlier prompts of the frame gave stays as an output of tracking, and the frame counts as
  // one that was never tracked.
  void downgrade(std::int64_t frame);
  // What a memory rule added condition nothing any more from a frame on, in the direction of
  // tracking.
  void forget_added(std::int64_t frame, bool reverse);
};

}  // namespace sam_rlx
