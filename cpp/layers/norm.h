#pragma once

#include <string>

#include "layers/layer.h"
#include "ops/norm.h"

namespace sam_rlx {

// Normalization over channels, the last axis. Upstream: torch.nn.LayerNorm on tokens, and
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

// Normalization over groups of channels and all positions of a map, see ops/norm.h.
// Upstream: torch.nn.GroupNorm.
struct GroupNorm {
  std::int64_t num_groups = 1, channels = 0;
  float eps = 1e-5F;  // PyTorch's default

  Tensor weight;  // (C,)
  Tensor bias;    // (C,)
  std::string path;

  GroupNorm() = default;
  GroupNorm(std::int64_t groups, std::int64_t size) : num_groups(groups), channels(size) {}

  void visit(ParamVisitor& v);
  // What to do with each channel of x (..., C): scale * x + shift; both (C,).
  void affine(Context& ctx, ConstView x, View scale, View shift) const;
};

}  // namespace sam_rlx
