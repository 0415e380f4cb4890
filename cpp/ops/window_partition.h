#pragma once

#include "core/context.h"

namespace sam_rlx {

// A map x (H, W, C), cut into windows of size x size, which divides the sides -> out (windows,
// size * size, C): windows row by row, and the positions of each one, too.
void window_partition(Context& ctx, ConstView x, std::int64_t size, View out);

}  // namespace sam_rlx
