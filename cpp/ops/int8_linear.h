#pragma once

#include "ops/linear.h"

namespace sam_rlx {

// The parts of pack_matrix and linear for int8 weights; shapes are checked there.
void pack_int8(ConstView weight, PackedMatrix& result);
void int8_linear(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
                 View out);

}  // namespace sam_rlx
