#pragma once

#include <string>

#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam3/detector_config.h"

namespace sam_rlx::sam3 {

// Two linear layers around ReLU, the input added, and a norm behind.
// Upstream: sam3/model/model_misc.py, MLP(residual=True, out_norm=LayerNorm).
struct PromptMlp {
  MLP mlp;
  LayerNorm out_norm;

  void visit(ParamVisitor& v);
};

// Scores queries by their product with the mean of the prompt.
// Upstream: sam3/model/model_misc.py, DotProductScoring.
struct DotProductScoring {
  PromptMlp prompt_mlp;
  Linear prompt_proj, hs_proj;
  std::string path;

  DotProductScoring() = default;
  explicit DotProductScoring(const DetectorConfig& config);
  void visit(ParamVisitor& v);

  // hs (Q, C), prompt (T, C) -> logits (Q,).
  View forward(Context& ctx, ConstView hs, ConstView prompt) const;
};

}  // namespace sam_rlx::sam3
