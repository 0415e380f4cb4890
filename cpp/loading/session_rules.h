#pragma once

#include <cstddef>

#include "core/image.h"

namespace sam_rlx {

// Where the frames of a video come from.
enum class FrameKind { kImages, kFolder, kClip };

// How upstream's loaders resize frames.
struct FrameResizes {
  Resize images = Resize::kBicubic;
  Resize folder = Resize::kBicubic;
  Resize clip = Resize::kBilinear;
  // Whoever decodes a video file resizes its frames too: they come as squares.
  bool clip_decoder = false;

  Resize of(FrameKind kind) const {
    if (kind == FrameKind::kImages) return images;
    return kind == FrameKind::kFolder ? folder : clip;
  }
};

// Where upstream's sessions of SAM 2 and of SAM 3 differ. Upstream:
// sam2/sam2_video_predictor.py, SAM2VideoPredictor, and sam3/model/sam3_tracking_predictor.py,
// Sam3TrackerPredictor.
struct SessionRules {
  // A click on a frame that was tracked before sees the memory, not only the mask there.
  bool clicks_see_memory = true;
  // Of more points on one frame, the first and the last half of so many are used. 0: all are.
  std::size_t max_points = 0;
  // What objects are to each other: see predictors/video.
  enum class Objects { kAlone, kBatches };
  Objects objects = Objects::kAlone;
  // Holes are filled in masks of the video's size, where small islands go too, and not in those
  // that are kept.
  bool fill_video_masks = false;
  FrameResizes resizes = {};
};

}  // namespace sam_rlx
