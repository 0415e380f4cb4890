#pragma once

#include "core/context.h"

namespace sam_rlx {

enum class Activation { kNone, kRelu, kGelu };

// In place, over any shape. GELU is the exact (erf) one.
void activation_(Context& ctx, Activation activation, View x);
// The same on this thread alone, for loops over rows that are in the cache.
void activate_row_(const KernelTable& kernels, Activation activation, View x) noexcept;

}  // namespace sam_rlx
