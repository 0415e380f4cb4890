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

// Turns the rows of x (n * side * side, C) in place; the grid repeats n times, row by row.
void rotate_(Context& ctx, const AxialAngles& angles, View x);

}  // namespace sam_rlx
