#pragma once

#include "core/context.h"

namespace sam_rlx {

// Largest of each 2x2 positions, without padding: x (B, H, W, C) with even H and W ->
// out (B, H / 2, W / 2, C2), from the first C2 channels of each position of x. So the queries in a
// fused (B, H, W, 3C) projection are pooled where they are. Upstream: torch.nn.MaxPool2d(2, 2).
void max_pool2x2(Context& ctx, ConstView x, View out);

}  // namespace sam_rlx
