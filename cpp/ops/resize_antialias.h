#pragma once

#include "core/context.h"

namespace sam_rlx {

// Bilinear resize with antialias: planes (P, H, W) -> out (P, H2, W2), first along rows, then along
// columns. When a side shrinks, the triangle of weights is as wide as the step between two results.
// Upstream: torch.nn.functional.interpolate(mode="bilinear", antialias=True).
void resize_bilinear_antialias(Context& ctx, ConstView planes, View out);

}  // namespace sam_rlx
