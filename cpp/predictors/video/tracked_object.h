#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/tensor.h"

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

// A unique_ptr whose copy owns a copy of the value.
template <class T>
class ValuePtr : public std::unique_ptr<T> {
 public:
  using std::unique_ptr<T>::unique_ptr;
  ValuePtr(std::unique_ptr<T> other) noexcept  // NOLINT(runtime/explicit)
      : std::unique_ptr<T>(std::move(other)) {}
  ValuePtr(const ValuePtr& other)
      : std::unique_ptr<T>(other ? std::make_unique<T>(*other) : nullptr) {}
  ValuePtr(ValuePtr&&) noexcept = default;
  ValuePtr& operator=(const ValuePtr& other) { return *this = ValuePtr(other); }
  ValuePtr& operator=(ValuePtr&&) noexcept = default;
  ~ValuePtr() = default;
};

// What one frame gave for one object.
struct FrameOutput {
  SharedTensor maskmem_features;  // (g, g, mem_dim); empty: not encoded
  SharedTensor obj_ptr;           // (C,)
  SharedTensor low_res_mask;      // (4g, 4g) logits, small holes filled
  float object_score_logits = 0.0F;
  float iou_prediction = 0.0F;
  float eff_iou_score = -1.0F;  // of the frame, for the selection of memory; below 0: none
  bool was_prompted = false;    // its frame conditioned others, until all of its prompts went
  bool is_outdated = false;     // no prompt of a later click: a prompt nearby changed the object
  // A mask given as prompt, (H, W) of the video, that has not become a low_res_mask yet. Or null.
  std::shared_ptr<const std::vector<std::uint8_t>> video_mask;

  bool has_memory() const { return !maskmem_features.empty(); }
};
using FrameOutputPtr = ValuePtr<FrameOutput>;

// Outputs by frame, in the order in which the frames came: upstream's dictionaries.
class OrderedOutputs {
 public:
  FrameOutput* find(std::int64_t frame) const;
  // Replaces the output before, if there was one. A frame that is known keeps its position.
  void set(std::int64_t frame, FrameOutputPtr output);
  FrameOutputPtr take(std::int64_t frame);
  std::vector<std::pair<std::int64_t, FrameOutputPtr>> take_all() {
    return std::exchange(entries_, {});
  }
  void sort();  // by frame
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<std::pair<std::int64_t, FrameOutputPtr>> entries_;
};

// Points in pixels of the network's input, already moved by half a pixel; a box is two of them.
struct ClickedPoints {
  std::vector<double> coords;        // (N, 2)
  std::vector<std::int32_t> labels;  // (N,)
};

// One object of a video and all it left behind. Upstream keeps these in the dictionaries of its
// inference state: sam2/sam2_video_predictor.py.
struct TrackedObject {
  std::int64_t handle = 0;
  std::int64_t batch = 0;   // objects of one number run as one batch; see SessionRules
  bool is_masklet = false;  // of a text, which says when it is tracked
  std::map<std::int64_t, ClickedPoints> points;  // by frame
  std::set<std::int64_t> mask_frames;            // frames whose prompt is a mask
  OrderedOutputs cond_frame_outputs;             // of frames with prompts
  std::map<std::int64_t, FrameOutputPtr> non_cond_frame_outputs;
  // Outputs of prompts since the last propagation.
  OrderedOutputs temp_cond, temp_non_cond;
  std::map<std::int64_t, bool> frames_tracked;  // to whether it was in reverse

  // The output of tracking: as a frame with prompts first. Null: none.
  FrameOutput* tracked_output(std::int64_t frame) const;
  // The same after that of a prompt.
  FrameOutput* latest_output(std::int64_t frame, bool is_cond) const;
  bool has_prompt() const { return !cond_frame_outputs.empty() || !temp_cond.empty(); }
  bool is_prompted(std::int64_t frame) const {
    return points.contains(frame) || mask_frames.contains(frame);
  }
  // Forgets the prompts of a frame, and what they gave since the last propagation.
  void clear_prompts(std::int64_t frame);
  // What earlier prompts of the frame gave stays as an output of tracking, and the frame counts as
  // one that was never tracked.
  void downgrade(std::int64_t frame);
  std::vector<std::int64_t> cond_frames() const;
  std::vector<std::int64_t> non_cond_frames() const;
};

}  // namespace sam_rlx
