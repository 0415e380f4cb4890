#include "layers/norm.h"

namespace sam_rlx {

void LayerNorm::visit(ParamVisitor& v) {
  v("weight", weight, {channels});
  v("bias", bias, {channels});
}

View LayerNorm::forward(Context& ctx, ConstView x) const {
  const View out = ctx.workspace.floats(x.shape);
  layer_norm(ctx, x, weight, bias, eps, out);
  return out;
}

void LayerNorm::forward_(Context& ctx, View x) const { layer_norm(ctx, x, weight, bias, eps, x); }

void GroupNorm::visit(ParamVisitor& v) {
  v("weight", weight, {channels});
  v("bias", bias, {channels});
}

void GroupNorm::affine(Context& ctx, ConstView x, View scale, View shift) const {
  group_norm_affine(ctx, x, {num_groups, weight, bias, eps}, scale, shift);
}

}  // namespace sam_rlx
