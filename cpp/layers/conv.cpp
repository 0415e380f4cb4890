#include "layers/conv.h"

#include "layers/fold.h"

namespace sam_rlx {

void Conv2d::visit(ParamVisitor& v) {
  v("weight", weight, {out_channels, in_channels, window.kernel, window.kernel});
  if (has_bias) v("bias", bias, {out_channels});
}

void Conv2d::absorb(Conv2d& next) {
  sam_rlx::absorb({weight, bias}, {next.weight, next.bias});
  out_channels = next.out_channels;
}

void Conv2d::pack(const KernelTable& kernels) {
  if (weight.empty()) return;  // absorbed by another layer
  packed = pack_conv(kernels, weight, weight_format);
  weight = Tensor();
}

View Conv2d::forward(Context& ctx, ConstView x, ConstView residual) const {
  const View out = ctx.workspace.floats(out_shape(x.shape));
  forward(ctx, x, residual, out);
  return out;
}

void Conv2d::forward(Context& ctx, ConstView x, ConstView residual, View out) const {
  conv2d(ctx, x, window, packed, {.bias = bias.data(), .residual = residual}, out);
}

void ConvTranspose2x2::visit(ParamVisitor& v) {
  v("weight", weight, {in_channels, out_channels, 2, 2});
  v("bias", bias, {out_channels});
}

void ConvTranspose2x2::absorb(Conv2d& next) {
  sam_rlx::absorb({weight, bias}, {next.weight, next.bias}, 1);
  out_channels = next.out_channels;
}

void ConvTranspose2x2::pack(const KernelTable& kernels) {
  packed = pack_conv_transpose2x2(kernels, weight, bias, weight_format);
  weight = Tensor();
}

View ConvTranspose2x2::forward(Context& ctx, ConstView x, Activation activation) const {
  const Shape& in = x.shape;
  const View out = ctx.workspace.floats({in[0], 2 * in[1], 2 * in[2], out_channels});
  conv_transpose2x2(ctx, x, packed, activation, out);
  return out;
}

void DepthwiseConv::visit(ParamVisitor& v) {
  v("weight", weight, {channels, 1, size, size});
  if (has_bias) v("bias", bias, {channels});
}

void DepthwiseConv::fold() { weight = transposed(weight); }

Shape DepthwiseConv::out_shape(const Shape& x) const {
  const ConvWindow window{size, stride, size / 2};
  return {x[0], window.out_size(x[1]), window.out_size(x[2]), channels};
}

View DepthwiseConv::forward(Context& ctx, ConstView x, Activation activation) const {
  const View out = ctx.workspace.floats(out_shape(x.shape));
  forward(ctx, x, activation, out);
  return out;
}

void DepthwiseConv::forward(Context& ctx, ConstView x, Activation activation, View out) const {
  depthwise_conv(ctx, x, {weight, bias, stride, activation}, out);
}

}  // namespace sam_rlx
