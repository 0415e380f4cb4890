#pragma once

#include "core/context.h"

namespace sam_rlx {

// Rotary position encoding on a square grid: half of the pairs of channels turn with x, the other
// half with y. The channels of a row are in halves, not interleaved: first the real parts of all
// pairs, then the imaginary parts.
struct AxialAngles {
  std::int64_t side = 0;
  ConstView cos, sin;  // (side, C / 4): of each coordinate and frequency
};

// The same angles seen from the centre of the grid: of the distances to it, and of the centre. With
// e < (side + 1) / 2, the coordinates side / 2 + e and (side - 1) / 2 - e lie at the distance e, or
// e + 1/2 when the side is even.
struct CenteredAngles {
  std::int64_t side = 0;
  ConstView cos, sin;                // ((side + 1) / 2, C / 4)
  ConstView center_cos, center_sin;  // (C / 4,)
};

// Turns the rows of x (n * side * side, C) in place; the grid repeats n times, row by row.
void rotate_(Context& ctx, const AxialAngles& angles, View x);
// The same for some rows (n, C), the first of which is row `first` of such an x.
void rotate_rows_(Context& ctx, const AxialAngles& angles, std::int64_t first, View rows);

// Turns the first `heads` heads of each row of a map (B, H, W, C), in place, such as the queries
// and keys of a fused projection; the grid repeats over the map from its corner on.
void rotate_heads_(Context& ctx, const AxialAngles& angles, std::int64_t heads, View map);

}  // namespace sam_rlx
