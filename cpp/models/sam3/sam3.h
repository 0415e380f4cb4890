#pragma once

#include <optional>

#include "models/sam3/config.h"
#include "models/sam3/detector.h"
#include "models/sam3/multiplex_tracker.h"
#include "models/sam3/neck.h"
#include "models/sam3/text_encoder.h"
#include "models/sam3/tracker.h"

namespace sam_rlx::sam3 {

// Upstream: sam3/model/vl_combiner.py, SAM3VLBackbone.
struct VLBackbone {
  Sam3DualViTDetNeck vision_backbone;
  std::optional<VETextEncoder> language_backbone;

  void visit(ParamVisitor& v);
};

// Upstream: sam3/model/sam3_image.py, Sam3Image.
struct Detector {
  VLBackbone backbone;
  std::optional<DetectorHeads> heads;

  // The heads' parts stand beside the backbone.
  void visit(ParamVisitor& v);
};

// All of SAM 3. The names are those of Meta's file sam3.pt, which holds the video model; the image
// model has the tracker under another name.
struct Sam3 {
  Sam3Config config;
  Detector detector;  // of its parts, the vision backbone is always there
  std::optional<Tracker> tracker;
  std::optional<MultiplexTracker> multiplex;  // SAM 3.1's tracker; `tracker` is for clicks then

  explicit Sam3(const Sam3Config& sizes);
  void visit(ParamVisitor& v);
  // conv_s0 and conv_s1 of the trackers become a part of their necks.
  void fold();

  const Sam3DualViTDetNeck& vision() const { return detector.backbone.vision_backbone; }

  // What is made of an image; null for what is not needed.
  struct ImageOutputs {
    DetectorFeatures* detector = nullptr;      // only if there is a detector
    sam2::ImageFeatures* tracker = nullptr;    // only if there is a tracker
    sam2::ImageFeatures* multiplex = nullptr;  // only if there is SAM 3.1's tracker
  };
  // Normalized image (1, S, S, 3) -> out: the trunk once, and the necks that are needed. Tensors
  // of the right size are used again.
  void forward_image(Context& ctx, ConstView image, const ImageOutputs& out) const;

  // Shapes of what is kept of an image for texts: DetectorFeatures::parts.
  std::array<Shape, 5> detector_part_shapes() const {
    return detector.heads->part_shapes(config.vision.trunk.grid());
  }

  // Texts -> their tokens for ConceptPrompt, in the scope of the caller.
  TextFeatures forward_text(Context& ctx, const TokenIds& ids) const {
    return detector.backbone.language_backbone->forward(ctx, ids);
  }
};

}  // namespace sam_rlx::sam3
