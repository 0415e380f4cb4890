#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "models/sam2/sam2.h"
#include "models/sam3/detector.h"
#include "predictors/video/tracked_object.h"

namespace sam_rlx {

// What the networks made of a frame of a video. All objects share it.
struct EncodedFrame {
  std::int64_t index = -1;
  sam2::ImageFeatures features;
  sam2::ImageFeatures buckets;  // SAM 3.1's, for tracking
  SharedTensor bucket_map;      // (g, g, C): the coarsest of these, for memories
  // The part of the memory attention that does not depend on the object, MemoryAttention::begin:
  // (g * g, C); undefined while !has_shared_attention.
  Tensor shared_attention;
  bool has_shared_attention = false;
  sam3::DetectorFeatures detector;  // for texts; undefined while !has_detector
  bool has_detector = false;
};
using EncodedFramePtr = std::shared_ptr<EncodedFrame>;

// The frames that were used last. A copy has the same ones, and keeps them.
class FrameCache {
  template <class Frames>
  static auto position_of(Frames& frames, std::int64_t index) {
    return std::find_if(frames.begin(), frames.end(),
                        [&](const EncodedFramePtr& frame) { return frame->index == index; });
  }

 public:
  static constexpr std::size_t kFrames = 2;

  // Null: there is none.
  EncodedFrame* find(std::int64_t index) {
    const auto position = position_of(frames_, index);
    if (position == frames_.end()) return nullptr;
    std::rotate(frames_.begin(), position, position + 1);
    return frames_.front().get();
  }
  // Does not count as a use.
  const EncodedFrame* peek(std::int64_t index) const {
    const auto position = position_of(frames_, index);
    return position == frames_.end() ? nullptr : position->get();
  }
  // Replaces one with the same number, or else the one whose last use is longest ago.
  void adopt(EncodedFramePtr frame) {
    auto position = position_of(frames_, frame->index);
    if (position == frames_.end() && frames_.size() == kFrames) --position;
    if (position != frames_.end()) frames_.erase(position);
    frames_.insert(frames_.begin(), std::move(frame));
  }

 private:
  std::vector<EncodedFramePtr> frames_;  // the last used one first
};

// Owns frames, and hands out one that no cache has any more: its tensors are used again.
class FramePool {
 public:
  EncodedFramePtr take() {
    auto free = std::find_if(frames_.begin(), frames_.end(),
                             [](const EncodedFramePtr& frame) { return frame.use_count() == 1; });
    if (free == frames_.end()) free = frames_.insert(free, std::make_shared<EncodedFrame>());
    (*free)->index = -1;
    (*free)->has_shared_attention = (*free)->has_detector = false;
    return *free;
  }

 private:
  std::vector<EncodedFramePtr> frames_;
};

}  // namespace sam_rlx
