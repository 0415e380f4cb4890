#pragma once

#include <array>

#include "models/sam2/sam2.h"
#include "models/sam3/detector.h"

namespace sam_rlx {

// A frame of a video as the model sees it. Its objects share all of it.
struct EncodedFrame {
  std::int64_t index = -1;  // -1: none
  sam2::ImageFeatures features;
  Tensor begun;  // memory_attention.begin: (g * g, C); undefined while !has_begun
  bool has_begun = false;
  sam3::DetectorFeatures detector;  // for phrases; undefined while !has_detector
  bool has_detector = false;
  std::int64_t last_use = 0;
};

// The frames that were used last. Their tensors are used again for other frames.
class FrameCache {
 public:
  static constexpr std::size_t kFrames = 2;

  EncodedFrame* find(std::int64_t index) {
    for (EncodedFrame& frame : frames_) {
      if (frame.index == index) {
        frame.last_use = ++clock_;
        return &frame;
      }
    }
    return nullptr;
  }
  // Does not count as a use.
  const EncodedFrame* peek(std::int64_t index) const {
    for (const EncodedFrame& frame : frames_) {
      if (frame.index == index) return &frame;
    }
    return nullptr;
  }
  void drop(std::int64_t index) {
    for (EncodedFrame& frame : frames_) {
      if (frame.index != index) continue;
      frame.index = -1;
      frame.last_use = 0;
    }
  }
  // Room for a new frame: that of the one whose last use is longest ago. The caller fills it, and
  // gives it its index at the end.
  EncodedFrame& make_room() {
    EncodedFrame* oldest = &frames_[0];
    for (EncodedFrame& frame : frames_) {
      if (frame.last_use < oldest->last_use) oldest = &frame;
    }
    oldest->index = -1;
    oldest->has_begun = oldest->has_detector = false;
    return *oldest;
  }
  void adopt(EncodedFrame& frame, std::int64_t index) {
    frame.index = index;
    frame.last_use = ++clock_;
  }

 private:
  std::array<EncodedFrame, kFrames> frames_;
  std::int64_t clock_ = 0;
};

}  // namespace sam_rlx
