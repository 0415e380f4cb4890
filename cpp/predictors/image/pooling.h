#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "predictors/image/image_transform.h"

namespace sam_rlx {

// The mean of an embedding inside a mask. A position of the grid counts by the part of its cell
// that the mask covers: pixels have areas, and no mask is too small.
struct Pooling {
  ConstView embedding;  // (1, C, g, g) of the network's square input
  std::int64_t side = 0;
  Size input_hw, orig_hw;  // of the image: inside that square, and before the resize
};

// mask (H, W) bytes that are not 0 inside, null for all of the image -> (C,). Sums are of float64.
// Raises InvalidArgument for a mask without a pixel.
Tensor pooled(const Pooling& pooling, const std::uint8_t* mask);

}  // namespace sam_rlx
