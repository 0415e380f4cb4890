#pragma once

#include "core/context.h"

namespace sam_rlx {

// The weighted sum of the channels that a convolution gives, and of a map beside them, if any:
//
//   out = sum over k of weights[k] * (conv3x3(map)[k] + bias[k] + beside[k])
//
// The kernels are summed with these weights first: one channel is computed instead of K.
struct WeightedConvArgs {
  ConstView map;          // (H, W, C), padded with one zero on each side
  ConstView weight;       // (K, C, 3, 3)
  ConstView bias;         // (K,)
  ConstView weights;      // (K,)
  ConstView beside = {};  // (H, W, K), or none
  bool adds = false;      // to what `out` holds
};
void weighted_conv3x3(Context& ctx, const WeightedConvArgs& args, View out);  // out (H, W)

}  // namespace sam_rlx
