#pragma once

#include <string>
#include <variant>
#include <vector>

#include "models/sam2/fpn_neck.h"
#include "models/sam2/hiera.h"
#include "models/trunks/rep_vit.h"

namespace sam_rlx::sam2 {

using Trunk = std::variant<Hiera, trunks::RepVit>;

// Upstream: sam2/modeling/backbones/image_encoder.py, ImageEncoder.
struct ImageEncoder {
  ImageEncoderConfig config;

  Trunk trunk;
  FpnNeck neck;
  // Encoding of the positions of the coarsest map that is kept, (g, g, d_model). Those of the finer
  // maps have no use.
  Tensor vision_pos_enc;
  std::string path;

  ImageEncoder() = default;
  explicit ImageEncoder(const ImageEncoderConfig& sizes);
  void visit(ParamVisitor& v);
  void fold();

  // Side of the coarsest map that is kept.
  std::int64_t grid() const { return config.stage_grid(config.num_levels() - 1); }

  // Normalized image (1, S, S, 3) -> upstream's backbone_fpn, finest first: maps
  // (1, g, g, neck.out_channels(level)) in the scope of the caller. `last_stage` or none gets the
  // trunk's coarsest map.
  std::vector<View> forward(Context& ctx, ConstView image, View last_stage = {}) const;
};

}  // namespace sam_rlx::sam2
