#pragma once

#include "core/context.h"

namespace sam_rlx {

// Normalises the last axis: (x - mean) / sqrt(biased variance + eps) * weight + bias. With channels
// last this is also upstream's LayerNorm2d. weight, bias (C,); out has x's shape and may be x.
void layer_norm(Context& ctx, ConstView x, ConstView weight, ConstView bias, float eps, View out);

}  // namespace sam_rlx
