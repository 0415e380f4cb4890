#pragma once

#include "ops/conv.h"

namespace sam_rlx {

// Two linear layers over channels with a depthwise convolution between them, some rows of the map
// at a time: the wide maps between the layers stay in the cache.
struct BottleneckArgs {
  const PackedMatrix& expand;   // (hidden, C)
  const PackedMatrix& project;  // (out, hidden)
  const float* expand_bias = nullptr;
  const float* project_bias = nullptr;
  DepthwiseArgs depthwise;
  Activation activation = Activation::kNone;  // behind `expand`; the depthwise one has its own
  ConstView residual = {};                    // of the result's shape, is added
  Activation last = Activation::kNone;        // of the sum
};
// x (B, H, W, C) -> out (B, (H - 1) / stride + 1, (W - 1) / stride + 1, out), which may not be x;
// residual may be out.
void bottleneck(Context& ctx, ConstView x, const BottleneckArgs& args, View out);

}  // namespace sam_rlx
