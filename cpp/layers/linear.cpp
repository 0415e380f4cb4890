#include "layers/linear.h"

namespace sam_rlx {

void Linear::visit(ParamVisitor& v) {
  v("weight", weight, {out_features, in_features});
  if (has_bias) v("bias", bias, {out_features});
}

void Linear::finalize(const KernelTable& kernels) {
  packed = pack_matrix(kernels, weight, keep_weight ? WeightFormat::kFloat32 : weight_format);
  if (!keep_weight) weight = Tensor();
}

View Linear::forward(Context& ctx, ConstView x, Activation activation) const {
  const View out = ctx.workspace.floats(x.shape.with_last(out_features));
  linear(ctx, x, packed, {.bias = bias.data(), .activation = activation}, out);
  return out;
}

void Linear::forward_add(Context& ctx, ConstView x, ConstView residual, View out) const {
  linear(ctx, x, packed, {.bias = bias.data(), .residual = residual}, out);
}

}  // namespace sam_rlx
