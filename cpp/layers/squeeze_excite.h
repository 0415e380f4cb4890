#pragma once

#include <string>

#include "layers/conv.h"

namespace sam_rlx {

// Each channel of a map times sigmoid(fc2(relu(fc1(means)))), where `means` are those of all
// channels. Upstream: timm/layers/squeeze_excite.py, SqueezeExcite.
struct SqueezeExcite {
  Conv2d fc1, fc2;  // 1x1
  std::string path;

  SqueezeExcite() = default;
  SqueezeExcite(std::int64_t channels, std::int64_t squeezed)
      : fc1(channels, squeezed, kConv1x1), fc2(squeezed, channels, kConv1x1) {}

  void visit(ParamVisitor& v);
  void forward_(Context& ctx, View x) const;  // (B, H, W, C)
};

}  // namespace sam_rlx
