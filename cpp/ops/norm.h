#pragma once

#include "core/context.h"

namespace sam_rlx {

// Normalizes the last axis: (x - mean) / sqrt(biased variance + eps) * weight + bias. With channels
// last this is also upstream's LayerNorm2d. weight, bias (C,); out has x's shape and may be x.
void layer_norm(Context& ctx, ConstView x, ConstView weight, ConstView bias, float eps, View out);

// Normalizes groups of channels over all positions of a map, as torch.nn.GroupNorm, in two steps,
// so that the second can be a part of what reads the map: the normalized value of channel c is
// scale[c] * x + shift[c]. x (..., C) is one map in any order of positions; scale, shift (C,). Sums
// of chunks of positions are joined in double, in order: a large map loses nothing.
struct GroupNormArgs {
  std::int64_t num_groups = 1;  // divides C
  ConstView weight, bias;       // (C,)
  float eps = 1e-5F;
};
void group_norm_affine(Context& ctx, ConstView x, const GroupNormArgs& args, View scale,
                       View shift);
// x = relu(scale * x + shift) for each channel, in place.
void relu_affine_(Context& ctx, View x, ConstView scale, ConstView shift);

}  // namespace sam_rlx
