#pragma once

#include <string>

#include "layers/layer.h"
#include "ops/conv.h"
#include "ops/conv_transpose.h"

namespace sam_rlx {

// Convolution with a square kernel, channels last. Upstream: torch.nn.Conv2d.
struct Conv2d {
  std::int64_t in_channels = 0, out_channels = 0;
  ConvWindow window;
  bool has_bias = true;
  WeightFormat weight_format = WeightFormat::kFloat32;

  Tensor weight;  // (out, in, kernel, kernel), until it is packed
  Tensor bias;    // (out,)
  PackedMatrix packed;
  std::string path;

  Conv2d() = default;
  Conv2d(std::int64_t in, std::int64_t out, const ConvWindow& sizes, bool with_bias = true)
      : in_channels(in), out_channels(out), window(sizes), has_bias(with_bias) {}

  void visit(ParamVisitor& v);
  // In fold(): puts a 1x1 convolution behind this one, as one. `next` gives its weights up.
  void absorb(Conv2d& next);
  void pack(const KernelTable& kernels);
  Shape out_shape(const Shape& x) const {
    return {x[0], window.out_size(x[1]), window.out_size(x[2]), out_channels};
  }
  // x (B, H, W, in) -> (B, H2, W2, out). `residual` (of the result's shape, or empty) is added.
  View forward(Context& ctx, ConstView x, ConstView residual = {}) const;
  // The same, written to `out`; residual may be out.
  void forward(Context& ctx, ConstView x, ConstView residual, View out) const;
};

// Transposed convolution whose kernel and stride are 2x2, channels last.
// Upstream: torch.nn.ConvTranspose2d.
struct ConvTranspose2x2 {
  std::int64_t in_channels = 0, out_channels = 0;
  WeightFormat weight_format = WeightFormat::kFloat32;

  Tensor weight;  // (in, out, 2, 2), until it is packed
  Tensor bias;    // (out,)
  PackedConvTranspose packed;
  std::string path;

  ConvTranspose2x2() = default;
  ConvTranspose2x2(std::int64_t in, std::int64_t out) : in_channels(in), out_channels(out) {}

  void visit(ParamVisitor& v);
  void absorb(Conv2d& next);  // as Conv2d's
  void pack(const KernelTable& kernels);
  // (B, H, W, in) -> (B, 2H, 2W, out)
  View forward(Context& ctx, ConstView x, Activation activation = Activation::kNone) const;
};

// Convolution of each channel with itself, size x size (odd), the map padded with size / 2 zeros.
// Upstream: torch.nn.Conv2d(groups=channels).
struct DepthwiseConv {
  std::int64_t channels = 0, size = 7, stride = 1;
  bool has_bias = true;

  Tensor weight;  // (C, 1, size, size); once folded (size * size, C)
  Tensor bias;    // (C,)
  std::string path;

  DepthwiseConv() = default;
  DepthwiseConv(std::int64_t count, std::int64_t side, std::int64_t step = 1, bool with_bias = true)
      : channels(count), size(side), stride(step), has_bias(with_bias) {}

  void visit(ParamVisitor& v);
  void fold();
  // x (B, H, W, C) -> (B, (H - 1) / stride + 1, (W - 1) / stride + 1, C)
  Shape out_shape(const Shape& x) const;
  View forward(Context& ctx, ConstView x, Activation activation = Activation::kNone) const;
  void forward(Context& ctx, ConstView x, Activation activation, View out) const;
};

}  // namespace sam_rlx
