#pragma once

#include <string>
#include <vector>

#include "models/sam3/encoder_layer.h"

namespace sam_rlx::sam3 {

// Mixes the prompt into the image. Upstream: sam3/model/encoder.py, TransformerEncoderFusion, for
// one prompt and one level.
struct TransformerEncoderFusion {
  std::vector<TransformerEncoderLayer> layers;
  std::string path;

  TransformerEncoderFusion() = default;
  explicit TransformerEncoderFusion(const DetectorConfig& config);
  void visit(ParamVisitor& v);

  // What does not depend on the prompt: src, pos (M, C) -> out (M, C), the self-attention of the
  // first layer. All prompts of an image share it.
  void begin(Context& ctx, ConstView src, ConstView pos, View out) const;
  // begin's result, and the prompt (T, C) -> (M, C).
  View finish(Context& ctx, ConstView shared, ConstView pos, ConstView prompt) const;
};

}  // namespace sam_rlx::sam3
