#pragma once

#include "core/context.h"

namespace sam_rlx {

// Of masks (K, H, W), only the one with the largest logit stays at a position: the others become
// at most -10. The first of equal ones stays. Upstream:
// SAM2Base._apply_non_overlapping_constraints.
void apply_non_overlapping_constraints_(Context& ctx, View logits);

// Rounds to the nearest bfloat16, ties to even.
void round_to_bfloat16_(View values);

}  // namespace sam_rlx
