#include "models/sam3/encoder_layer.h"

#include "layers/mlp.h"
#include "ops/elementwise.h"

namespace sam_rlx::sam3 {

TransformerEncoderLayer::TransformerEncoderLayer(const DetectorConfig& config)
    : self_attn(config.d_model, config.num_heads),
      cross_attn_image(config.d_model, config.num_heads),
      linear1(config.d_model, config.dim_feedforward),
      linear2(config.dim_feedforward, config.d_model),
      norm1(config.d_model, 1e-5F),
      norm2(config.d_model, 1e-5F),
      norm3(config.d_model, 1e-5F) {}

void TransformerEncoderLayer::visit(ParamVisitor& v) {
  v("self_attn", self_attn);
  v("cross_attn_image", cross_attn_image);
  v("linear1", linear1);
  v("linear2", linear2);
  v("norm1", norm1);
  v("norm2", norm2);
  v("norm3", norm3);
}

void TransformerEncoderLayer::self_attention_(Context& ctx, View x, ConstView pos) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View y = norm1.forward(ctx, x);
  const ConstView q = pos ? add(ctx, y, pos) : y;
  self_attn.forward_add_(ctx, {.query = q, .key = q, .value = y}, x);
}

void TransformerEncoderLayer::attend_to_prompt_(Context& ctx, View x, ConstView prompt) const {
  const Workspace::Scope scratch(ctx.workspace);
  cross_attn_image.attend_to_tokens_add_(ctx, norm2.forward(ctx, x), prompt, x);
}

void TransformerEncoderLayer::attend_to_map_(Context& ctx, View x, ConstView map,
                                             ConstView pos) const {
  const Workspace::Scope scratch(ctx.workspace);
  cross_attn_image.attend_to_map_add_(ctx, norm2.forward(ctx, x), map, pos, x);
}

void TransformerEncoderLayer::feed_forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  mlp_add_(ctx, linear1, Activation::kRelu, linear2, norm3.forward(ctx, x), x);
  ctx.record(path, x);
}

}  // namespace sam_rlx::sam3
