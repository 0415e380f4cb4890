#include "models/sam3/scoring.h"

#include <cmath>

#include "ops/elementwise.h"
#include "ops/scores.h"

namespace sam_rlx::sam3 {

void PromptMlp::visit(ParamVisitor& v) {
  mlp.visit(v);
  v("out_norm", out_norm);
}

DotProductScoring::DotProductScoring(const DetectorConfig& config)
    : prompt_mlp{.mlp = {config.d_model, config.dim_feedforward, config.d_model, 2},
                 .out_norm = {config.d_model, 1e-5F}},
      prompt_proj(config.d_model, config.d_model),
      hs_proj(config.d_model, config.d_model) {}

void DotProductScoring::visit(ParamVisitor& v) {
  v("prompt_mlp", prompt_mlp);
  v("prompt_proj", prompt_proj);
  v("hs_proj", hs_proj);
}

View DotProductScoring::forward(Context& ctx, ConstView hs, ConstView prompt) const {
  constexpr float kClampMax = 12.0F;
  const View logits = ctx.workspace.floats({hs.shape[0]});
  const Workspace::Scope scratch(ctx.workspace);
  const View tokens = ctx.workspace.floats(prompt.shape);
  copy_(ctx, tokens, prompt);
  mlp_add_(ctx, prompt_mlp.mlp.layers[0], Activation::kRelu, prompt_mlp.mlp.layers[1], prompt,
           tokens);
  prompt_mlp.out_norm.forward_(ctx, tokens);
  const View pooled = ctx.workspace.floats({1, prompt.shape[1]});
  mean_rows(ctx, tokens, pooled);

  const float scale = 1.0F / std::sqrt(static_cast<float>(hs_proj.out_features));
  dot_rows(ctx, hs_proj.forward(ctx, hs), prompt_proj.forward(ctx, pooled), scale, kClampMax,
           logits);
  ctx.record(path, logits);
  return logits;
}

}  // namespace sam_rlx::sam3
