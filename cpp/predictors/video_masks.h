#pragma once

#include "core/context.h"

namespace sam_rlx {

// Gives holes of a mask, 8-connected places of (H, W) logits that are not above 0, of at most
// `max_area` places the logit 0.1. Upstream: sam2/utils/misc.py, fill_holes_in_mask_scores, whose
// components come from a CUDA kernel.
void fill_holes_(View logits, std::int64_t max_area);

// Of masks (K, H, W), only the one with the largest logit stays at a place: the others become
// at most -10. The first of equal ones stays. Upstream:
// SAM2Base._apply_non_overlapping_constraints.
void apply_non_overlapping_constraints_(Context& ctx, View logits);

// Rounds to the nearest bfloat16, ties to even.
void round_to_bfloat16_(View values);

}  // namespace sam_rlx
