#include "layers/conv.h"

namespace sam_rlx {

void PatchConv::visit(ParamVisitor& v) {
  v("weight", weight, {out_channels, in_channels, patch, patch});
  if (has_bias) v("bias", bias, {out_channels});
}

void PatchConv::finalize(const KernelTable& kernels) {
  packed = pack_conv(kernels, weight);
  if (!keep_weight) weight = Tensor();
}

View PatchConv::forward(Context& ctx, ConstView x, ConstView residual) const {
  const Shape& in = x.shape;
  const View out = ctx.workspace.floats({in[0], in[1] / patch, in[2] / patch, out_channels});
  forward(ctx, x, residual, out);
  return out;
}

void PatchConv::forward(Context& ctx, ConstView x, ConstView residual, View out) const {
  conv_patch(ctx, x, patch, packed, {.bias = bias.data(), .residual = residual}, out);
}

void StridedConv::visit(ParamVisitor& v) {
  v("weight", weight, {out_channels, in_channels, window.kernel, window.kernel});
  v("bias", bias, {out_channels});
}

void StridedConv::finalize(const KernelTable& kernels) {
  packed = pack_conv(kernels, weight);
  weight = Tensor();
}

void StridedConv::forward(Context& ctx, ConstView x, ConstView residual, View out) const {
  conv_strided(ctx, x, window, packed, {.bias = bias.data(), .residual = residual}, out);
}

void Conv3x3::visit(ParamVisitor& v) {
  v("weight", weight, {out_channels, in_channels, 3, 3});
  if (has_bias) v("bias", bias, {out_channels});
}

void Conv3x3::finalize(const KernelTable& kernels) {
  packed = pack_conv(kernels, weight);
  weight = Tensor();
}

View Conv3x3::forward(Context& ctx, ConstView x) const {
  const View out = ctx.workspace.floats(x.shape.with_last(out_channels));
  conv3x3(ctx, x, packed, {.bias = bias.data()}, out);
  return out;
}

}  // namespace sam_rlx
