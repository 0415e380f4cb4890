#pragma once

#include <string>
#include <vector>

#include "layers/embedding.h"
#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/multihead_attention.h"
#include "layers/norm.h"
#include "layers/position_encoding.h"
#include "models/sam3/detector_config.h"

namespace sam_rlx::sam3 {

// Post-norm layer: the presence token and the queries attend to each other, to the prompt, and to
// the image. Upstream: sam3/model/decoder.py, TransformerDecoderLayer.
struct TransformerDecoderLayer {
  MultiheadAttention cross_attn, self_attn;
  TokenMapAttention ca_text;
  Linear linear1, linear2;
  LayerNorm norm1, catext_norm, norm2, norm3;
  std::string path;

  TransformerDecoderLayer() = default;
  explicit TransformerDecoderLayer(const DetectorConfig& config);
  void visit(ParamVisitor& v);

  struct Inputs {
    ConstView query_pos;    // (1 + Q, C): zeros for the presence token
    ConstView memory_text;  // (T, C): the prompt
    ConstView memory;       // (M, C)
    ConstView memory_key;   // (M, C): memory with positions
    MapBias bias;           // of the queries, not of the presence token
  };
  // x (1 + Q, C), in place: the presence token, then the queries.
  void forward_(Context& ctx, const Inputs& in, View x) const;
};

// Finds the instances of a prompt in the image. Queries carry boxes, which each layer refines.
// Upstream: sam3/model/decoder.py, TransformerDecoder, with box refinement, logarithmic
// box-relative bias and presence token, for one prompt.
struct TransformerDecoder {
  DetectorConfig config;
  PositionEmbeddingSine sine_embed;
  Tensor frequencies;  // of sine_embed

  std::vector<TransformerDecoderLayer> layers;
  LayerNorm norm;
  MLP bbox_embed;
  Embedding query_embed, reference_points;
  MLP boxRPB_embed_x, boxRPB_embed_y;
  Embedding presence_token;
  MLP presence_token_head;
  LayerNorm presence_token_out_norm;
  MLP ref_point_head;
  std::string path;

  TransformerDecoder() = default;
  explicit TransformerDecoder(const DetectorConfig& sizes);
  void visit(ParamVisitor& v);
  void fold();

  struct Inputs {
    ConstView memory;       // (H, W, C): the image with the prompt
    ConstView pos;          // (H, W, C)
    ConstView memory_text;  // (T, C): the prompt
    // Gets the boxes that each layer begins with, (layers, Q, 4), or none.
    View reference_boxes = {};
  };
  struct Decoded {
    View hidden_states;           // (Q, C), normed
    View boxes;                   // (Q, 4): cx, cy, w, h
    float presence_logit = 0.0F;  // not clamped: upstream drops what its clamp gives
  };
  Decoded forward(Context& ctx, const Inputs& in) const;

 private:
  void encode_positions(Context& ctx, ConstView boxes, View query_pos) const;
  // Terms of the scores that depend on where a position lies seen from the box, (heads, Q, H) and
  // (heads, Q, W).
  void box_bias(Context& ctx, ConstView boxes, View rows, View cols) const;
};

}  // namespace sam_rlx::sam3
