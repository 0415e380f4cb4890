#pragma once

#include <string>
#include <vector>

#include "layers/conv.h"
#include "models/sam3/student.h"

namespace sam_rlx::sam3 {

// One level: the trunk's map to `scale_factor` times its sides and d_model channels. Upstream:
// necks.py, Sam3DualViTDetNeck.convs.N, a Sequential whose parts depend on the factor.
struct NeckBranch {
  double scale_factor = 1.0;

  ConvTranspose2x2 dconv_2x2_0, dconv_2x2_1;  // 4: with GELU between them
  ConvTranspose2x2 dconv_2x2;                 // 2
  Conv2d conv_1x1, conv_3x3;
  std::string path;

  NeckBranch() = default;
  NeckBranch(std::int64_t dim, std::int64_t d_model, double factor);
  void visit(ParamVisitor& v);
  // conv_1x1 becomes a part of the transposed convolution before it: nothing is between them.
  void fold();

  std::int64_t out_channels() const { return conv_3x3.out_channels; }
  std::int64_t side_of(std::int64_t grid) const;
  // x (1, g, g, C) -> out (1, side_of(g), side_of(g), out_channels)
  void forward(Context& ctx, ConstView x, View out) const;

 private:
  View upscale(Context& ctx, ConstView x) const;
};

// The image encoder: trunk, and sets of maps of the same sizes with weights of their own. Upstream:
// necks.py, Sam3DualViTDetNeck and, of SAM 3.1, Sam3TriViTDetNeck.
struct Sam3DualViTDetNeck {
  VisionConfig config;

  Trunk trunk;
  std::vector<NeckBranch> convs;              // for the detector, or empty
  std::vector<NeckBranch> sam2_convs;         // for clicks and videos, or empty
  std::vector<NeckBranch> propagation_convs;  // for videos of SAM 3.1, or empty
  // Encoding of the positions of the trunk's map, (g, g, d_model). Those of the finer maps have no
  // use.
  Tensor vision_pos_enc;
  std::string path;

  Sam3DualViTDetNeck() = default;
  explicit Sam3DualViTDetNeck(const VisionConfig& sizes);
  void visit(ParamVisitor& v);
  void fold();

  // Normalized image (1, S, S, 3) -> the trunk's map (1, g, g, C), in the scope of the caller.
  View forward_trunk(Context& ctx, ConstView image) const {
    return std::visit([&](const auto& network) { return network.forward(ctx, image); }, trunk);
  }
  // The trunk's map (1, g, g, C) -> the kept levels of `branches`, one of the sets, finest first,
  // in the scope of the caller. Upstream computes all sets for each image.
  std::vector<View> levels(Context& ctx, ConstView x,
                           const std::vector<NeckBranch>& branches) const;
};

}  // namespace sam_rlx::sam3
