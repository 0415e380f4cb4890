#pragma once

#include "models/sam2/sam2.h"
#include "models/sam3/neck.h"

namespace sam_rlx::sam3 {

// Sizes and switches of the tracker on an image encoder. Upstream: sam3/model_builder.py,
// build_tracker, and what sam3/model/sam3_tracker_base.py, Sam3TrackerBase, fixes.
sam2::HeadsConfig tracker_heads(const VisionConfig& vision);
// Those of SAM 3.1 are for clicks alone; what differs from SAM 3 and no tensor tells. Upstream:
// sam3/model_builder.py, build_sam3_multiplex_video_model.
void make_interactive(sam2::HeadsConfig& heads, const MultiplexConfig& multiplex);

// SAM 2's heads on the second set of maps of SAM 3's neck, for clicks and videos: the same layers,
// some of them under other names. Upstream: sam3/model/sam3_tracker_base.py, Sam3TrackerBase.
struct Tracker {
  sam2::Sam2Heads heads;
  // SAM 3.1: of the heads those for clicks, which have other names again. Upstream:
  // sam3/model/video_tracking_multiplex.py, VideoTrackingMultiplex.
  bool interactive = false;

  explicit Tracker(const sam2::HeadsConfig& sizes, bool is_interactive = false);
  void visit(ParamVisitor& v);

  // In fold(): conv_s0 and conv_s1 become a part of the neck's second set of convolutions. The
  // decoder reads the two finer maps through them only.
  void fold_projections(Sam3DualViTDetNeck& neck);

  // The trunk's map (1, g, g, C) -> out. Tensors of the right size are used again. Upstream:
  // Sam3TrackerBase.forward_image, and sam3/model/sam3_image_processor.py, Sam3Processor.set_image.
  void forward_image(Context& ctx, const Sam3DualViTDetNeck& neck, ConstView map,
                     sam2::ImageFeatures& out) const;
};

}  // namespace sam_rlx::sam3
