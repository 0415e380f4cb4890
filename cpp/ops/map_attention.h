#pragma once

#include "core/context.h"
#include "ops/token_folding.h"

namespace sam_rlx {

// The map attends to the tokens: keys_out = layer_norm(keys + out_proj(attention)), or without the
// norm where norm_weight is none.
//   key, value (N, inner)   projected tokens, N > 0
//   query_input, query_pe   the map's queries are q_proj(query_input + query_pe), (M, C) each
//   query_t                 or, where query_input is none, projected queries, of pack_positions_t
//   keys (M, C)             residual; keys_out may be keys
//
// A softmax does not see what all its scores have in common, and its weights have the sum 1. So
// everything is relative to the first token, which costs nothing:
//   softmax(q . k_n) = softmax(q . (k_n - k_0)),  sum p_n v_n = v_0 + sum over n > 0 of p_n (v_n -
//   v_0)
struct MapToTokenArgs {
  std::int64_t num_heads = 0;
  ConstView key, value;
  ConstView query_input = {}, query_pe = {}, query_t = {};
  Projection q_proj, out_proj;
  ConstView norm_weight = {}, norm_bias = {};
  float norm_eps = 1e-5F;
  ConstView keys;
};
void map_to_token_attention_norm(Context& ctx, const MapToTokenArgs& args, View keys_out);

}  // namespace sam_rlx
