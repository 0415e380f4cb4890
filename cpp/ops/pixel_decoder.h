#pragma once

#include <array>

#include "core/context.h"
#include "ops/linear.h"

namespace sam_rlx {

// Convolutions of a map that was enlarged twice by repeating its positions, without the enlarged
// map.
//
// A 3x3 kernel on the enlarged map meets 2x2 positions of the small one, and which weights fall on
// the same position depends only on whether the row and the column of the result are even or odd.
// So the convolution is four of 2x2 positions, each for a quarter of the result: 4/9 of the work.
// The result stays in quarters:
//
//   map in quarters (4, H, W, C): position (2 y + dy, 2 x + dx) of the map stands at (2 dy + dx, y,
//   x)

// The four kernels of 2x2 positions, packed as rows (out, 4 * in).
struct UpsampledConv {
  std::array<PackedMatrix, 4> quarters;
};
// weight (out, in, 3, 3). Sums in double.
// As pack_conv in other formats.
UpsampledConv pack_upsampled_conv(const KernelTable& kernels, ConstView weight,
                                  WeightFormat format = WeightFormat::kFloat32);

// x (H, W, C), or in quarters (4, H / 2, W / 2, C) -> out (4, H, W, out) in quarters: the
// convolution (stride 1, padding 1) of the enlarged x, plus `residual` of out's shape.
void conv3x3_upsampled(Context& ctx, ConstView x, const UpsampledConv& weight, ConstView residual,
                       View out);

// 3x3, stride 1, padding 1: x (H, W, C) with even sides -> out (4, H / 2, W / 2, out) in quarters.
// Weight reordered by pack_conv.
void conv3x3_to_quarters(Context& ctx, ConstView x, const PackedMatrix& weight, const float* bias,
                         View out);

// Products of vectors with the channels of each position of a map:
//   out[k, y, x] = vectors[k] . relu(scale * map[y, x] + shift) + bias[k]
// The normalized map is never stored. map (4, H, W, C) in quarters -> out (K, 2 H, 2 W).
struct MapProductArgs {
  ConstView map;
  ConstView scale, shift;  // (C,)
  ConstView vectors;       // (K, C)
  ConstView bias;          // (K,)
};
void map_products(Context& ctx, const MapProductArgs& args, View out);

}  // namespace sam_rlx
