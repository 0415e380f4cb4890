#pragma once

#include <span>
#include <vector>

#include "models/sam3/detector.h"
#include "predictors/video/masklet_association.h"

namespace sam_rlx {

// What the detector finds on a frame of a video, in the order of the queries.
struct FrameDetections {
  std::vector<float> scores = {};  // probabilities
  std::vector<float> boxes = {};   // (N, 4): x0, y0, x1, y1 as fractions of the sides
  Tensor masks;                    // (N, S, S), logits

  std::span<const float, 4> box(std::int64_t index) const {
    return std::span<const float, 4>(boxes.data() + 4 * index, 4);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(scores.size()); }
};

// Findings that are probable and not another one again. `side`: of the masks. Their scores go
// through logits, as upstream's of the video model do; `plain_scores`: they are the products
// themselves, as those of transformers. `inside_only`: without what is close to the edge. Upstream:
// sam3/model/sam3_image.py, Sam3ImageOnVideoMultiGPU, and Sam3VideoBase.run_backbone_and_detection.
struct FrameDetector {
  const sam3::DetectorHeads& heads;
  std::int64_t side = 0;
  NmsThresholds nms = {};
  bool plain_scores = false;
  bool inside_only = false;

  FrameDetections detect(Context& ctx, const sam3::DetectorFeatures& features,
                         const sam3::ConceptPrompt& prompt) const;
};

}  // namespace sam_rlx
