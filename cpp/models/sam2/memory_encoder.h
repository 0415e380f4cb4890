#pragma once

#include <string>
#include <vector>

#include "layers/conv.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "models/sam2/config.h"

namespace sam_rlx::sam2 {

// Masks to a map of embed_dim channels, halved as often as the stride asks for. Upstream:
// sam2/modeling/memory_encoder.py, MaskDownSampler; sam3/model/memory.py, SimpleMaskDownSampler,
// for several masks.
struct MaskDownSampler {
  std::vector<Conv2d> convs;     // encoder.0, encoder.3, ...: 3x3, stride 2
  std::vector<LayerNorm> norms;  // encoder.1, encoder.4, ...
  Conv2d proj;                   // the last one
  std::string path;

  MaskDownSampler() = default;
  MaskDownSampler(std::int64_t embed_dim, std::int64_t total_stride, std::int64_t in_channels = 1,
                  std::int64_t starting_out_chan = 1);
  void visit(ParamVisitor& v);
  View forward(Context& ctx, ConstView masks) const;  // (1, S, S, in) -> (1, g, g, embed_dim)
};

// Block of ConvNeXt. Upstream: sam2/modeling/memory_encoder.py, CXBlock.
struct CXBlock {
  std::int64_t dim = 0;

  DepthwiseConv dwconv;
  LayerNorm norm;
  Linear pwconv1, pwconv2;
  Tensor gamma;  // (C,): scales the branch; moved into pwconv2 by fold
  std::string path;

  CXBlock() = default;
  explicit CXBlock(std::int64_t channels);
  void visit(ParamVisitor& v);
  void fold();
  void forward_(Context& ctx, View x) const;  // (1, H, W, C)
};

// Upstream: sam2/modeling/memory_encoder.py, Fuser.
struct Fuser {
  std::vector<CXBlock> layers;
  std::string path;

  void visit(ParamVisitor& v) { v("layers", layers); }
  void forward_(Context& ctx, View x) const;
};

// What a frame leaves in the memory bank: its features fused with its mask. Upstream:
// sam2/modeling/memory_encoder.py, MemoryEncoder; its position encoding has no weights and is a
// table of the model.
struct MemoryEncoder {
  MemoryEncoderConfig config;

  MaskDownSampler mask_downsampler;
  Conv2d pix_feat_proj;
  Fuser fuser;
  Conv2d out_proj;
  std::string path;

  MemoryEncoder() = default;
  explicit MemoryEncoder(const MemoryEncoderConfig& sizes);
  void visit(ParamVisitor& v);
  // pix_feat (g, g, in_dim), mask (S, S) as probabilities, scaled and shifted -> (g, g, out_dim),
  // upstream's vision_features. A mask of another side than total_stride * g is resized to that.
  // Upstream: sam3/model/memory.py, SimpleMaskDownSampler, interpol_size.
  View forward(Context& ctx, ConstView pix_feat, ConstView mask) const;

 private:
  ConstView fitting_mask(Context& ctx, ConstView pix_feat, ConstView mask) const;
};

}  // namespace sam_rlx::sam2
