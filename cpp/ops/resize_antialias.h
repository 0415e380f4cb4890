#pragma once

#include "core/context.h"
#include "ops/resize_filter.h"

namespace sam_rlx {

// Bilinear resize with antialias: planes (P, H, W) -> out (P, H2, W2), first along rows, then along
// columns. When a side shrinks, the triangle of weights is as wide as the step between two results.
// Upstream: torch.nn.functional.interpolate(mode="bilinear", antialias=True).
void resize_bilinear_antialias(Context& ctx, ConstView planes, View out);

// The same with another filter; upstream's mode "bicubic" is the cubic one.
void resize_antialias(Context& ctx, ConstView planes, const ResizeFilter& filter, View out);

}  // namespace sam_rlx
