#pragma once

#include "core/context.h"

namespace sam_rlx {

// The mean of each channel over the positions of a map: x (B, H, W, C) -> out (B, C). The positions
// of a row are summed first, and then the rows, in order.
void channel_means(Context& ctx, ConstView x, View out);

// Multiplies each channel of a map with a gate between 0 and 1, in place: x (B, H, W, C) times
// sigmoid(logits); logits (B, C).
void gate_channels_(Context& ctx, View x, ConstView logits);

}  // namespace sam_rlx
