#pragma once

#include "core/context.h"
#include "ops/linear.h"

namespace sam_rlx {

// All maps are channels last: (B, H, W, C). Weights were reordered by pack_conv.

// Weight (out, in, kh, kw) as a packed matrix (out, kh * kw * in).
PackedMatrix pack_conv(const KernelTable& kernels, ConstView weight);

// Kernel equals stride, no padding (patch embedding, mask downscaling): each output place is one
// linear map of its own patch. x (B, H, W, C) with H, W divisible by the patch ->
// out (B, H / patch, W / patch, out).
void conv_patch(Context& ctx, ConstView x, std::int64_t patch, const PackedMatrix& weight,
                const Epilogue& epilogue, View out);

// A square kernel with any stride, and zeros around the map. Weight reordered by pack_conv.
struct ConvWindow {
  std::int64_t kernel = 1, stride = 1, padding = 0;
  std::int64_t out_size(std::int64_t size) const {
    return (size + 2 * padding - kernel) / stride + 1;
  }
};
// x (B, H, W, C) -> out (B, H2, W2, out). Patches of rows are gathered while they are packed, from
// a copy of the map with the zeros around it: for maps with few channels.
void conv_strided(Context& ctx, ConstView x, const ConvWindow& window, const PackedMatrix& weight,
                  const Epilogue& epilogue, View out);

// 3x3, stride 1, padding 1: x (B, H, W, C) -> out (B, H, W, out). Implicit: the patches of a row
// block are gathered while they are packed; no im2col of the whole map.
void conv3x3(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
             View out);

// 3x3, stride 2, padding 1: x (B, H, W, C) -> out (B, (H + 1) / 2, (W + 1) / 2, out).
void conv3x3_stride2(Context& ctx, ConstView x, const PackedMatrix& weight,
                     const Epilogue& epilogue, View out);

// A channel sees only itself: kernel size x size (odd), stride 1, padding size / 2. weight
// (size * size, C): the kernel's places, row by row, channels last. x (B, H, W, C) -> out, of the
// same shape and not x.
void depthwise_conv(Context& ctx, ConstView x, ConstView weight, ConstView bias, View out);

}  // namespace sam_rlx
