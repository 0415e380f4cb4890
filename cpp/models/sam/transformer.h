#pragma once

#include <string>
#include <vector>

#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam/config.h"

namespace sam_rlx::sam {

// Projections of one image's map that do not depend on the prompt: the first decoder layer needs
// them for every prompt, so they are made once an image.
struct ProjectedMap {
  Tensor key_t;    // of pack_positions_t: keys of cross_attn_token_to_image
  Tensor value;    // (M, inner)
  Tensor query_t;  // of pack_positions_t: queries of cross_attn_image_to_token
};

// Multi-head attention with separate projections, on an inner width of embedding_dim / downsample
// rate. Upstream: segment_anything/modeling/transformer.py, Attention. The three uses differ in
// what they know of their inputs, so there are three forwards.
struct TwoWayAttention {
  std::int64_t num_heads = 0;
  Linear q_proj, k_proj, v_proj, out_proj;
  Tensor q_weight, k_weight;  // (inner, C), where the map's side is moved to the tokens' side
  std::string path;

  TwoWayAttention() = default;
  TwoWayAttention(std::int64_t embedding_dim, std::int64_t heads, std::int64_t downsample_rate);
  void visit(ParamVisitor& v);
  void fold();

  // Tokens among themselves. q, k, v (N, C) -> (N, C)
  View self_forward(Context& ctx, ConstView q, ConstView k, ConstView v) const;
  // Tokens to a map: q (N, C); the map (M, C) gives values, the map + key_pe gives keys -> (N, C).
  // `projected` not null: the map's projections are taken from there.
  View token_to_map(Context& ctx, ConstView q, ConstView map, ConstView key_pe,
                    const ProjectedMap* projected) const;
  // The map to tokens: map_out = norm(map + attention(map + key_pe, k, v)); map_out may be map.
  struct MapInputs {
    ConstView map, key_pe;          // (M, C)
    const ProjectedMap* projected;  // or null
    ConstView k, v;                 // tokens (N, C)
  };
  void map_to_token(Context& ctx, const MapInputs& in, const LayerNorm& norm, View map_out) const;
};

// One layer of the two-way decoder for one prompt: tokens and map update each other.
//   queries, query_pe  (N, C)  tokens of the prompt, and their encoding
//   keys               (M, C)  image features
//   key_pe             (M, C)  encoding of the positions
// Upstream: segment_anything/modeling/transformer.py, TwoWayAttentionBlock.
struct TwoWayAttentionBlock {
  bool skip_first_layer_pe = false;
  TwoWayAttention self_attn, cross_attn_token_to_image, cross_attn_image_to_token;
  LayerNorm norm1, norm2, norm3, norm4;
  MLPBlock mlp;
  std::string path;

  TwoWayAttentionBlock() = default;
  TwoWayAttentionBlock(const TwoWayTransformerConfig& config, bool first);
  void visit(ParamVisitor& v);

  // What all prompts of an image share when `keys` is the same for all of them.
  void project_map(Context& ctx, ConstView keys, ConstView key_pe, ProjectedMap& out) const;
  // `queries` changes in place; the new map goes to keys_out, which may be keys.
  struct Inputs {
    ConstView query_pe, keys, key_pe;
    const ProjectedMap* projected = nullptr;
  };
  void forward_(Context& ctx, View queries, const Inputs& in, View keys_out) const;
};

// Upstream: segment_anything/modeling/transformer.py, TwoWayTransformer, for one prompt.
struct TwoWayTransformer {
  std::vector<TwoWayAttentionBlock> layers;
  TwoWayAttention final_attn_token_to_image;
  LayerNorm norm_final_attn;
  std::string path;

  TwoWayTransformer() = default;
  explicit TwoWayTransformer(const TwoWayTransformerConfig& config);
  void visit(ParamVisitor& v);

  // The projections that the first layer makes of an image's map (g, g, C). image_pe: as large.
  void project_map(Context& ctx, ConstView map, ConstView image_pe, ProjectedMap& out) const;

  // point_embedding (N, C) is both the first queries and their encoding; image_embedding (M, C)
  // -> keys (M, C), queries (R, C): the first token, and R - 1 of those behind the `skipped` ones
  // that follow it. Upstream computes all of them.
  struct Inputs {
    ConstView image_embedding, image_pe, point_embedding;
    const ProjectedMap* projected = nullptr;
    std::int64_t skipped = 0;
  };
  void forward_(Context& ctx, const Inputs& in, View queries, View keys) const;
};

}  // namespace sam_rlx::sam
