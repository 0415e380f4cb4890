#pragma once

#include <string>

#include "layers/linear.h"
#include "layers/multihead_attention.h"
#include "layers/norm.h"
#include "models/sam3/detector_config.h"

namespace sam_rlx::sam3 {

// Pre-norm layer of the fusion encoder and of the geometry encoder, which differ in where positions
// are added. Upstream: sam3/model/encoder.py, TransformerEncoderLayer.
struct TransformerEncoderLayer {
  MultiheadAttention self_attn;
  TokenMapAttention cross_attn_image;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  std::string path;

  TransformerEncoderLayer() = default;
  explicit TransformerEncoderLayer(const DetectorConfig& config);
  void visit(ParamVisitor& v);

  // All in place; x (N, C).
  // `pos` (N, C) is added to queries and keys, or none.
  void self_attention_(Context& ctx, View x, ConstView pos) const;
  // The map attends to the prompt (T, C).
  void attend_to_prompt_(Context& ctx, View x, ConstView prompt) const;
  // Tokens attend to a map (M, C), whose positions `pos` (M, C) are added to the keys.
  void attend_to_map_(Context& ctx, View x, ConstView map, ConstView pos) const;
  void feed_forward_(Context& ctx, View x) const;
};

}  // namespace sam_rlx::sam3
