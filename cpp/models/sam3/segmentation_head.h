#pragma once

#include <string>
#include <vector>

#include "layers/conv.h"
#include "layers/mlp.h"
#include "layers/multihead_attention.h"
#include "layers/norm.h"
#include "models/sam3/detector_config.h"
#include "ops/pixel_decoder.h"

namespace sam_rlx::sam3 {

// The finer levels of the neck behind the pixel decoder's convolutions: a 3x3 convolution of a sum
// is the sum of the convolutions, and this half of it does not depend on the prompt. Maps are in
// quarters, see ops/pixel_decoder.h.
struct PixelLevels {
  Tensor level1;  // (4, g, g, C), of the level with sides 2 g
  Tensor level0;  // (4, 2 g, 2 g, C), of the level with sides 4 g
};

// 3x3 convolution of (level + enlarged coarser map), its two halves packed apart.
struct PixelConv {
  std::int64_t channels = 0;
  WeightFormat weight_format = WeightFormat::kFloat32;

  Tensor weight;  // (C, C, 3, 3)
  Tensor bias;    // (C,)
  PackedMatrix level;
  UpsampledConv coarser;

  void visit(ParamVisitor& v);
  void pack(const KernelTable& kernels);
};

// Upstream: sam3/model/maskformer_segmentation.py, PixelDecoder, for three levels.
struct PixelDecoder {
  std::vector<PixelConv> conv_layers;
  std::vector<GroupNorm> norms;
  std::string path;

  PixelDecoder() = default;
  explicit PixelDecoder(const DetectorConfig& config);
  void visit(ParamVisitor& v);
  // The stages without a level are in every checkpoint and never used.
  void fold();

  // level0 (4 g, 4 g, C), level1 (2 g, 2 g, C) -> out. Tensors of the right size are used again.
  void begin(Context& ctx, ConstView level0, ConstView level1, PixelLevels& out) const;

  // The result is relu(scale * map + shift), which its reader makes of each position it reads.
  struct Pixels {
    View map;           // (4, 2 g, 2 g, C) in quarters
    View scale, shift;  // (C,)
  };
  // x (g, g, C)
  Pixels finish(Context& ctx, ConstView x, const PixelLevels& levels) const;
};

struct MaskPredictor {
  MLP mask_embed;
  void visit(ParamVisitor& v) { v("mask_embed", mask_embed); }
};

// Masks of queries, and one of the text. A mask is the product of a query's vector with the
// channels of each position; the 1x1 convolution that makes these channels is a part of the
// vector's last layer here, so that only the queries whose masks are asked for cost. Upstream:
// sam3/model/maskformer_segmentation.py, UniversalSegmentationHead.
struct UniversalSegmentationHead {
  PixelDecoder pixel_decoder;
  MaskPredictor mask_predictor;
  TokenMapAttention cross_attend_prompt;
  LayerNorm cross_attn_norm;
  Conv2d semantic_seg_head, instance_seg_head;
  Linear mask_offset;      // see fold
  Tensor semantic_vector;  // (1, C, 1, 1): the weight of semantic_seg_head
  std::string path;

  UniversalSegmentationHead() = default;
  explicit UniversalSegmentationHead(const DetectorConfig& config);
  void visit(ParamVisitor& v);
  void fold();
  void pack(const KernelTable& kernels) { mask_offset.pack(kernels); }

  // encoder_hidden_states (g, g, C): the image with the prompt; prompt (T, C).
  PixelDecoder::Pixels embed_pixels(Context& ctx, ConstView encoder_hidden_states, ConstView prompt,
                                    const PixelLevels& levels) const;
  // queries (K, C): normed hidden states -> masks (K, 4 g, 4 g), logits.
  void predict_masks(Context& ctx, const PixelDecoder::Pixels& pixels, ConstView queries,
                     View masks) const;
  // -> (1, 4 g, 4 g), logits.
  void predict_semantic(Context& ctx, const PixelDecoder::Pixels& pixels, View semantic) const;
};

}  // namespace sam_rlx::sam3
