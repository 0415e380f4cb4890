#pragma once

#include <string>

#include "layers/conv.h"
#include "layers/fold.h"
#include "layers/layer.h"
#include "layers/linear.h"

namespace sam_rlx {

// Each channel minus a mean, times a scale, plus a shift: constants of the checkpoint, which become
// part of the layer before it. Upstream: torch.nn.BatchNorm2d in evaluation.
struct BatchNorm {
  std::int64_t channels = 0;
  float eps = 1e-5F;  // PyTorch's default

  Tensor weight, bias, running_mean, running_var;  // (C,)
  std::string path;

  BatchNorm() = default;
  explicit BatchNorm(std::int64_t size) : channels(size) {}

  void visit(ParamVisitor& v);
  // In fold(): puts this behind a layer, as one. axis: of the layer's weight, its channels. The
  // layer may have no bias, and gets one. This layer gives its weights up.
  void fold_into(Affine layer, int axis = 0);
};

// Convolution without bias, and batch norm, as one convolution. `fused`: the checkpoint has that
// one, with a bias, under the name of the whole.
// Upstream: mobile_sam/modeling/tiny_vit_sam.py, Conv2d_BN, and timm/models/repvit.py, ConvNorm,
// whose fuse() makes the fused one.
struct Conv2dBN {
  bool fused = false;
  Conv2d c;
  BatchNorm bn;
  std::string path;

  Conv2dBN() = default;
  Conv2dBN(std::int64_t in, std::int64_t out, const ConvWindow& window, bool is_fused = false)
      : fused(is_fused), c(in, out, window, is_fused), bn(out) {}

  void visit(ParamVisitor& v);
  void fold() {
    if (!fused) bn.fold_into({c.weight, c.bias});
  }
  // x (B, H, W, in) -> (B, H2, W2, out)
  View forward(Context& ctx, ConstView x, Activation activation = Activation::kNone) const;
  void forward(Context& ctx, ConstView x, Activation activation, View out) const;
};

// The same for a 1x1 convolution, which is a linear layer over channels.
struct PointwiseConvBN {
  std::int64_t in_channels = 0, out_channels = 0;
  bool fused = false;
  WeightFormat weight_format = WeightFormat::kFloat32;

  Tensor weight;  // (out, in, 1, 1), until it is packed
  Tensor bias;    // (out,), once folded
  BatchNorm bn;
  PackedMatrix packed;
  std::string path;

  PointwiseConvBN() = default;
  PointwiseConvBN(std::int64_t in, std::int64_t out, bool is_fused = false)
      : in_channels(in), out_channels(out), fused(is_fused), bn(out) {}

  void visit(ParamVisitor& v);
  void fold() {
    if (!fused) bn.fold_into({weight, bias});
  }
  void pack(const KernelTable& kernels);
  PackedAffine affine() const { return {packed, bias.data()}; }
  // x (..., in) -> (..., out)
  View forward(Context& ctx, ConstView x, Activation activation = Activation::kNone) const;
  void forward(Context& ctx, ConstView x, Activation activation, View out) const;
  // x -> this + residual, written to `out`; residual may be out.
  void forward_add(Context& ctx, ConstView x, ConstView residual, View out) const;
};

// The same for a convolution of each channel with itself.
struct DepthwiseConvBN {
  bool fused = false;
  DepthwiseConv c;
  BatchNorm bn;
  std::string path;

  DepthwiseConvBN() = default;
  DepthwiseConvBN(std::int64_t channels, std::int64_t size, std::int64_t stride = 1,
                  bool is_fused = false)
      : fused(is_fused), c(channels, size, stride, is_fused), bn(channels) {}

  void visit(ParamVisitor& v);
  // The weight of `c` is folded first: its channels are the last axis.
  void fold() {
    if (!fused) bn.fold_into({c.weight, c.bias}, 1);
  }
};

}  // namespace sam_rlx
