#pragma once

#include "core/context.h"
#include "ops/token_folding.h"

namespace sam_rlx {

// Attention between a few tokens (N, C) and many positions of a map (M, C), with the projections of
// the map's side moved to the tokens' side. With heads h and weights W_h of one head:
//
//   q . (W_h x + b_h)      = (W_h^T q) . x + q . b_h
//   sum p (W_h x + b_h)    = W_h (sum p x) + b_h          since sum p = 1
//
// so no (M, inner) projection of the map is ever made. Rows of the folded matrices are ordered
// token-major: row n * num_heads + h.

// Tokens attend to the map.
//   query (N, inner)    projected queries
//   keys (M, C)         the map; values are the same positions
//   key_pe (M, C)       is added to the map for the keys
// out (N, inner): heads merged, before the output projection.
struct TokenToMapArgs {
  std::int64_t num_heads = 0;
  ConstView query, keys, key_pe;
  Projection k_proj, v_proj;
};
void token_to_map_attention(Context& ctx, const TokenToMapArgs& args, View out);

// A map's projection x (M, inner) as a right operand (inner, M), in panels of gemm_nr positions. A
// tensor of the right size is used again.
void pack_positions_t(Context& ctx, ConstView x, Tensor& out);

// The same when the map's projections are at hand:
//   key_t  projected keys, of pack_positions_t; value (M, inner)
struct ProjectedMapArgs {
  std::int64_t num_heads = 0;
  ConstView query, key_t, value;
};
void token_to_projected_map_attention(Context& ctx, const ProjectedMapArgs& args, View out);

}  // namespace sam_rlx
