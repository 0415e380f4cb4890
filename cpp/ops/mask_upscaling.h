#pragma once

#include "core/context.h"
#include "ops/linear.h"

namespace sam_rlx {

// Two transposed 2x2 convolutions of stride 2 with a norm and GELU between and GELU behind, and the
// product of the result with one vector a mask:
//
//   upscaled = GELU(conv2(GELU(channel_norm(conv1(map)))))     (4H, 4W, C2)
//   masks[k] = hyper[k] . upscaled                             (4H, 4W)
//
// With SAM 2's high-resolution features, `skip1` is added to what conv1 gives and `skip0` to what
// conv2 gives, both before anything else is done. One row of the map at a time goes through all
// steps, so the upscaled map is stored only where it is asked for.
struct MaskUpscalingArgs {
  ConstView map;                     // (H, W, C)
  ConstView weight1, bias1;          // of fold_conv_transpose2x2, (4 * C1,)
  ConstView norm_weight, norm_bias;  // (C1,)
  float norm_eps = 1e-6F;
  ConstView weight2, bias2;  // of fold_conv_transpose2x2, (4 * C2,)
  ConstView hyper;           // (K, C2)
  ConstView skip1 = {};      // (H, 4 * C1, W), or none; see split_positions
  ConstView skip0 = {};      // (H, 4 * 4 * C2, W), or none
  View upscaled = {};        // (4H, 4W, C2), or none: gets the upscaled map too
};

// A map (2^n H, 2^n W, C), channels last, as rows of the small map -> out (H, 4^n C, W), n = 1 or
// 2: of row y, the channels of positions (2y + dy, 2x + dx) for all x stand below each other in the
// order (dy, dx, c); with n = 2 in the order (dy1, dx1, dy0, dx0, c) for the positions
// (4y + 2 dy1 + dy0, 4x + 2 dx1 + dx0).
void split_positions(Context& ctx, ConstView map, View out);
// The way back: rows (H, 4^n C, W) -> map (2^n H, 2^n W, C).
void merge_positions(Context& ctx, ConstView rows, View map);

// A transposed-convolution weight (in, out, 2, 2) as a left operand with rows (dy, dx, out), in
// panels of gemm_mr rows, and a bias (out,) four times.
Tensor fold_conv_transpose2x2(const KernelTable& kernels, ConstView weight);
Tensor repeat_bias2x2(ConstView bias);

// masks (K, 4H, 4W)
void upscale_masks(Context& ctx, const MaskUpscalingArgs& args, View masks);

}  // namespace sam_rlx
