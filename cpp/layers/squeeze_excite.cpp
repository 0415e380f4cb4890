#include "layers/squeeze_excite.h"

#include "ops/squeeze_excite.h"

namespace sam_rlx {

void SqueezeExcite::visit(ParamVisitor& v) {
  v("fc1", fc1);
  v("fc2", fc2);
}

void SqueezeExcite::forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t batch = x.shape[0], channels = x.shape[3];
  const View means = ctx.workspace.floats({batch, channels});
  channel_means(ctx, x, means);
  const View squeezed = ctx.workspace.floats({batch, fc1.out_channels});
  linear(ctx, means, fc1.packed, {.bias = fc1.bias.data(), .activation = Activation::kRelu},
         squeezed);
  const View logits = ctx.workspace.floats({batch, channels});
  linear(ctx, squeezed, fc2.packed, {.bias = fc2.bias.data()}, logits);
  gate_channels_(ctx, x, logits);
}

}  // namespace sam_rlx
