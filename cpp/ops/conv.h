#pragma once

#include "core/context.h"
#include "ops/linear.h"

namespace sam_rlx {

// All maps are channels last: (B, H, W, C).

// Weight (out, in, kh, kw) as a packed matrix (out, kh * kw * in). kBFloat16 needs whole steps of
// its products under each position of the kernel: with several of these, other numbers of inputs
// than multiples of 32 keep the weight float32.
PackedMatrix pack_conv(const KernelTable& kernels, ConstView weight,
                       WeightFormat format = WeightFormat::kFloat32);

// A square kernel, and zeros around the map.
struct ConvWindow {
  std::int64_t kernel = 1, stride = 1, padding = 0;
  std::int64_t out_size(std::int64_t size) const {
    return (size + 2 * padding - kernel) / stride + 1;
  }
  bool operator==(const ConvWindow&) const = default;
};
constexpr ConvWindow kConv1x1{1, 1, 0}, kConv3x3{3, 1, 1};
// The kernel equals the stride: each output position is a linear map of its own patch.
constexpr ConvWindow conv_patches(std::int64_t side) { return {side, side, 0}; }

// x (B, H, W, C) -> out (B, H2, W2, out). Weight reordered by pack_conv. Patches of rows are
// gathered while they are packed: no im2col of the whole map.
void conv2d(Context& ctx, ConstView x, const ConvWindow& window, const PackedMatrix& weight,
            const Epilogue& epilogue, View out);

// A convolution of each channel with itself: kernel size x size (odd), padding size / 2.
struct DepthwiseArgs {
  ConstView weight;  // (size * size, C): the kernel's positions, row by row, channels last
  ConstView bias;    // (C,)
  std::int64_t stride = 1;
  Activation activation = Activation::kNone;
};
// x (B, H, W, C) -> out (B, (H - 1) / stride + 1, (W - 1) / stride + 1, C), not x.
void depthwise_conv(Context& ctx, ConstView x, const DepthwiseArgs& args, View out);

}  // namespace sam_rlx
