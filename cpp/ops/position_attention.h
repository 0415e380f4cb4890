#pragma once

#include <span>

#include "core/context.h"
#include "ops/rope.h"

namespace sam_rlx {

// Attention to several maps of one square grid with rotary keys R_p (W u + b), where p is the
// position of the input u and R_p turns half of the channels with the column and half with the row
// of p. Keys are never made. With the parts of W and b that belong to the column and to the row,
//
//   q . R_p (W u + b) = (W_x^T R_x^T q_x + W_y^T R_y^T q_y) . u + b_x . R_x^T q_x + b_y . R_y^T q_y
//
// where only the first term of each pair depends on the column x, and only the second on the row y:
// one small product for each column and each row, whose sum serves all maps. A score then takes as
// many multiply-adds as u is wide, instead of as q is wide. The terms with b are one more channel
// of u, which is 1.
//
// Seen from the centre of the grid, the product for a column is
//   sum over pairs j of cos(d t_j) even_j + sin(d t_j) odd_j,
// d the signed distance, and even and odd the products of a pair's weight and query: both columns
// at the same distance need the same two sums.

// W (C, K) and b (C,), channels in halves as rotate_ takes them, and the angles, as operands.
struct PositionProjection {
  std::int64_t inputs = 0, side = 0;  // K
  Tensor column, row;                 // (K + 1, 2, C / 4): weights of the pairs
  Tensor all;                         // left operand (K + 1, C), for keys that are not turned
  Tensor cos, sin;                    // left operands ((side + 1) / 2, C / 4)
  Tensor center_cos, center_sin;      // (C / 4,)
};
PositionProjection pack_position_projection(const KernelTable& kernels, ConstView weight,
                                            ConstView bias, const CenteredAngles& angles);

// A map: keys come from features + pos + tpos, values are the features.
struct PositionMap {
  ConstView features, pos;  // (side * side, K)
  ConstView tpos;           // (K,) or none
};

// Maps, and tokens whose keys are not turned, in the order in which they are read. Made once for
// all layers that attend to them.
struct PackedPositions {
  std::int64_t side = 0, maps = 0, tokens = 0, inputs = 0;
  const float* map_keys = nullptr;      // (side, side, K + 1, maps)
  const float* map_values = nullptr;    // (side) times a left operand (K, side * maps)
  const float* token_keys = nullptr;    // left operand (tokens, K + 1)
  const float* token_values = nullptr;  // left operand (K, tokens)
};
// token_pos may be none. The result lives in the enclosing scope of the workspace.
PackedPositions pack_positions(Context& ctx, std::int64_t side, std::span<const PositionMap> maps,
                               ConstView tokens, ConstView token_pos);

struct PositionAttentionArgs {
  ConstView query;  // (N, C), turned by rotate_
  const PositionProjection& projection;
  const PackedPositions& positions;
  float scale = 1.0F;
};
// out (N, K): the mean of the values.
void position_attention(Context& ctx, const PositionAttentionArgs& args, View out);

}  // namespace sam_rlx
