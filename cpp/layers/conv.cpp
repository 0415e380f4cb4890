#include "layers/conv.h"

namespace sam_rlx {

void PatchConv::visit(ParamVisitor& v) {
  v("weight", weight, {out_channels, in_channels, patch, patch});
  if (has_bias) v("bias", bias, {out_channels});
}

void PatchConv::finalize(const KernelTable& kernels) {
  packed = pack_conv(kernels, weight);
  weight = Tensor();
}

View PatchConv::forward(Context& ctx, ConstView x, ConstView residual) const {
  const Shape& in = x.shape;
  const View out = ctx.workspace.floats({in[0], in[1] / patch, in[2] / patch, out_channels});
  conv_patch(ctx, x, patch, packed, {.bias = bias.data(), .residual = residual}, out);
  return out;
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
