#pragma once

#include "core/context.h"

namespace sam_rlx {

// Shapes are equal, or the second operand has fewer numbers that repeat over the leading axes
// (its numel divides the first one's).
View add(Context& ctx, ConstView a, ConstView b);
void add_(Context& ctx, View a, ConstView b);
// out = a + factor * b, shapes equal.
void add_scaled(Context& ctx, ConstView a, ConstView b, float factor, View out);
void copy_(Context& ctx, View to, ConstView from);
// To the nearest bfloat16, ties to even.
void round_to_bfloat16_(View values);
// x (R, C) -> out (C, R)
void transpose(Context& ctx, ConstView x, View out);

}  // namespace sam_rlx
