#pragma once

#include <cstdint>

#include "core/context.h"
#include "core/tensor.h"
#include "models/sam/sam.h"

namespace sam_rlx {

// What SAM's decoder takes when a caller has made it: one image, and B prompt sets.
struct SamEmbeddings {
  ConstView image;     // (C, g, g)
  ConstView image_pe;  // (C, g, g)
  ConstView sparse;    // (B, N, C)
  ConstView dense;     // (B, C, g, g)
};

// Logits of the masks first, first + 1, ... of each set -> masks (B, M, 4g, 4g), iou (B, M).
// Upstream: mask_decoder.py, MaskDecoder.forward.
void decode_embeddings(Context& ctx, const sam::Sam& sam, const SamEmbeddings& in,
                       std::int64_t first, View masks, View iou);

}  // namespace sam_rlx
