#include "models/sam3/fusion_encoder.h"

#include "ops/elementwise.h"

namespace sam_rlx::sam3 {

TransformerEncoderFusion::TransformerEncoderFusion(const DetectorConfig& config) {
  for (std::int64_t i = 0; i < config.encoder_layers; ++i) layers.emplace_back(config);
}

void TransformerEncoderFusion::visit(ParamVisitor& v) { v("layers", layers); }

void TransformerEncoderFusion::begin(Context& ctx, ConstView src, ConstView pos, View out) const {
  copy_(ctx, out, src);
  layers.front().self_attention_(ctx, out, pos);
}

View TransformerEncoderFusion::finish(Context& ctx, ConstView shared, ConstView pos,
                                      ConstView prompt) const {
  const View x = ctx.workspace.floats(shared.shape);
  copy_(ctx, x, shared);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TransformerEncoderLayer& layer = layers[i];
    if (i > 0) layer.self_attention_(ctx, x, pos);
    layer.attend_to_prompt_(ctx, x, prompt);
    layer.feed_forward_(ctx, x);
    ctx.check_interrupt();
  }
  return x;
}

}  // namespace sam_rlx::sam3
