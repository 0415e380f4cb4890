#pragma once

#include "core/context.h"

namespace sam_rlx {

enum class Activation { kNone, kRelu, kGelu };

// In place, over any shape. GELU is the exact (erf) one.
void activation_(Context& ctx, Activation activation, View x);

}  // namespace sam_rlx
