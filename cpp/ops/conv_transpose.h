#pragma once

#include <array>

#include "core/context.h"
#include "ops/linear.h"

namespace sam_rlx {

// A transposed 2x2 convolution of stride 2, packed: each position becomes 2x2 positions of its own.
struct PackedConvTranspose {
  // What the even and the odd rows of the result are made with: (2 * out, in), rows (dx, out).
  std::array<PackedMatrix, 2> rows;
  Tensor bias;  // (2 * out,)
};

// weight (in, out, 2, 2), bias (out,)
PackedConvTranspose pack_conv_transpose2x2(const KernelTable& kernels, ConstView weight,
                                           ConstView bias,
                                           WeightFormat format = WeightFormat::kFloat32);

// x (B, H, W, in) -> out (B, 2H, 2W, out) = activation(conv(x) + bias), channels last.
// Upstream: torch.nn.ConvTranspose2d(kernel_size=2, stride=2).
void conv_transpose2x2(Context& ctx, ConstView x, const PackedConvTranspose& weight,
                       Activation activation, View out);

}  // namespace sam_rlx
