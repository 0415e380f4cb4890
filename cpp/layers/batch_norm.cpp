#include "layers/batch_norm.h"

#include <cmath>

#include "core/error.h"

namespace sam_rlx {

void BatchNorm::visit(ParamVisitor& v) {
  v("weight", weight, {channels});
  v("bias", bias, {channels});
  v("running_mean", running_mean, {channels});
  v("running_var", running_var, {channels});
}

void BatchNorm::fold_into(Affine layer, int axis) {
  const Shape& shape = layer.weight.shape();
  if (shape[axis] != channels) fail_internal("BatchNorm: sizes do not match");
  if (layer.bias.empty()) layer.bias = Tensor::zeros({channels});
  std::int64_t length = 1;  // numbers of a channel that lie side by side
  for (int i = axis + 1; i < shape.rank(); ++i) length *= shape[i];
  std::vector<double> scale(static_cast<std::size_t>(channels));
  for (std::int64_t i = 0; i < channels; ++i) {
    const double factor = static_cast<double>(weight.data()[i]) /
                          std::sqrt(static_cast<double>(running_var.data()[i]) + double{eps});
    scale[static_cast<std::size_t>(i)] = factor;
    const double centered =
        static_cast<double>(layer.bias.data()[i]) - static_cast<double>(running_mean.data()[i]);
    layer.bias.data()[i] =
        static_cast<float>(centered * factor + static_cast<double>(bias.data()[i]));
  }
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    float& number = layer.weight.data()[i];
    const auto channel = static_cast<std::size_t>(i / length % channels);
    number = static_cast<float>(static_cast<double>(number) * scale[channel]);
  }
  for (Tensor* const part : {&weight, &bias, &running_mean, &running_var}) *part = Tensor();
}

// ---------------------------------------------------------------- Conv2dBN

void Conv2dBN::visit(ParamVisitor& v) {
  v(fused ? "" : "c", c);
  if (!fused) v("bn", bn);
}

View Conv2dBN::forward(Context& ctx, ConstView x, Activation activation) const {
  const View out = ctx.workspace.floats(c.out_shape(x.shape));
  forward(ctx, x, activation, out);
  return out;
}

void Conv2dBN::forward(Context& ctx, ConstView x, Activation activation, View out) const {
  conv2d(ctx, x, c.window, c.packed, {.bias = c.bias.data(), .activation = activation}, out);
}

// ---------------------------------------------------------------- PointwiseConvBN

void PointwiseConvBN::visit(ParamVisitor& v) {
  v(fused ? "weight" : "c.weight", weight, {out_channels, in_channels, 1, 1});
  if (fused) {
    v("bias", bias, {out_channels});
  } else {
    v("bn", bn);
  }
}

void PointwiseConvBN::pack(const KernelTable& kernels) {
  packed = pack_matrix(kernels, weight.view().reshape({out_channels, in_channels}), weight_format);
  weight = Tensor();
}

View PointwiseConvBN::forward(Context& ctx, ConstView x, Activation activation) const {
  const View out = ctx.workspace.floats(x.shape.with_last(out_channels));
  forward(ctx, x, activation, out);
  return out;
}

void PointwiseConvBN::forward(Context& ctx, ConstView x, Activation activation, View out) const {
  linear(ctx, x, packed, {.bias = bias.data(), .activation = activation}, out);
}

void PointwiseConvBN::forward_add(Context& ctx, ConstView x, ConstView residual, View out) const {
  linear(ctx, x, packed, {.bias = bias.data(), .residual = residual}, out);
}

// ---------------------------------------------------------------- DepthwiseConvBN

void DepthwiseConvBN::visit(ParamVisitor& v) {
  v(fused ? "" : "c", c);
  if (!fused) v("bn", bn);
}

}  // namespace sam_rlx
