#pragma once

#include "core/tensor.h"

namespace sam_rlx {

// Sines and cosines of the positions of a map, normalized to 2 pi. Has no weights: tables are made
// when a model is folded.
// Upstream: sam2/modeling/position_encoding.py, PositionEmbeddingSine(normalize=True, scale=None).
struct PositionEmbeddingSine {
  std::int64_t num_pos_feats = 256;  // width of the encoding, a multiple of 4
  double temperature = 10000.0;

  // -> (H, W, num_pos_feats): the row first, then the column; sine and cosine take turns.
  Tensor dense(std::int64_t height, std::int64_t width) const;
  // -> (num_pos_feats / 4,): turns of coordinates in 0 to 1, num_pos_feats / 2 numbers for each;
  // see ops/boxes.h, CoordinateCode. Upstream: _encode_xy, and gen_sineembed_for_position.
  Tensor frequencies() const;
};

}  // namespace sam_rlx
