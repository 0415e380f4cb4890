#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "masks/rle.h"
#include "predictors/image/image_transform.h"
#include "predictors/video/masklet_tracker.h"

namespace sam_rlx {

// What a caller wants to see of a frame.
struct Wants {
  bool masks = true;           // those of texts too
  bool logits = false;         // at the size of the video
  bool low_res_masks = false;  // as the network gave them

  bool anything() const { return masks || logits || low_res_masks; }
};

// Masks of bytes 0 or 1.
struct MaskStack {
  MaskStack() = default;
  MaskStack(std::int64_t count_, Size hw_)
      : count(count_),
        hw(hw_),
        bits(std::make_unique_for_overwrite<std::uint8_t[]>(
            static_cast<std::size_t>(count_ * hw_.height * hw_.width))) {}

  std::int64_t count = 0;
  Size hw = {};
  std::unique_ptr<std::uint8_t[]> bits = {};  // (count, H, W)
};

struct ShownObject {
  std::int64_t handle = 0;
  float object_score_logits = 0.0F;
};

// What one text shows on a frame.
struct TextResult {
  std::string text;
  std::vector<std::int64_t> names = {};
  MaskletTracker::Seen seen = {};  // scores, boxes and counts, in the order of the names
  MaskStack masks = {};            // these do not overlap
};

// What is known of a frame. It owns all it has; what was not wanted is empty.
struct FrameResult {
  std::int64_t frame = 0;
  std::vector<ShownObject> objects = {};  // that prompts show, in the order of the masks
  MaskStack masks = {};
  Tensor logits = {};         // (K, H, W)
  Tensor low_res_masks = {};  // (K, S, S)
  std::vector<TextResult> texts = {};
};

}  // namespace sam_rlx
