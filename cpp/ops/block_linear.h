#pragma once

#include "ops/linear.h"

namespace sam_rlx {

// The part of linear for weights in GGUF's blocks; shapes are checked there.
void block_linear(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
                  View out);

}  // namespace sam_rlx
