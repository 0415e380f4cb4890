#pragma once

#include <string>

#include "layers/layer.h"
#include "ops/norm.h"

namespace sam_rlx {

// Normalisation over channels, the last axis. Upstream: torch.nn.LayerNorm on tokens, and
// segment_anything/modeling/common.py, LayerNorm2d, on maps.
struct LayerNorm {
  std::int64_t channels = 0;
  float eps = 1e-5F;  // PyTorch's default

  Tensor weight;  // (C,)
  Tensor bias;    // (C,)
  std::string path;

  LayerNorm() = default;
  LayerNorm(std::int64_t size, float epsilon) : channels(size), eps(epsilon) {}

  void visit(ParamVisitor& v);
  View forward(Context& ctx, ConstView x) const;
  void forward_(Context& ctx, View x) const;
};

}  // namespace sam_rlx
