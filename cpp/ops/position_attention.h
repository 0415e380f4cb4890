#pragma once

#include "core/context.h"
#include "ops/packed_positions.h"
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
// of u, which is 1. As integers of 16 bits, the products for all columns and rows of a query share
// a scale, so that the sum of two is one of integers.
//
// Seen from the centre of the grid, the product for a column is
//   sum over pairs j of cos(d t_j) even_j + sin(d t_j) odd_j,
// d the signed distance, and even and odd the products of a pair's weight and query: both columns
// at the same distance need the same two sums.

// W (C, K) and b (C,), channels in halves as rotate_ takes them, and the angles, as operands.
struct PositionProjection {
  std::int64_t inputs = 0, side = 0;       // K
  Tensor column, row;                      // (K + 1, 2, C / 4): weights of the pairs
  Tensor all;                              // left operand (K + 1, C), for keys that are not turned
  Products products = Products::kFloat32;  // or integers of 16 bits
  Tensor cos, sin;                         // left operands ((side + 1) / 2, C / 4) of such numbers
  Tensor cos_scale, sin_scale;             // of integers
  Tensor center_cos, center_sin;           // (C / 4,)
};
PositionProjection pack_position_projection(const KernelTable& kernels, ConstView weight,
                                            ConstView bias, const CenteredAngles& angles,
                                            Products products);

struct PositionAttentionArgs {
  ConstView query;  // (N, C), turned by rotate_
  const PositionProjection& projection;
  const PackedPositions& positions;
  float scale = 1.0F;
};
// out (N, K): the mean of the values.
void position_attention(Context& ctx, const PositionAttentionArgs& args, View out);

}  // namespace sam_rlx
