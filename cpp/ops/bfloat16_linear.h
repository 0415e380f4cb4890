#pragma once

#include "ops/linear.h"

namespace sam_rlx {

// The kBFloat16 case of pack_matrix and linear, where the table multiplies bfloat16 itself: the
// inputs are rounded too. Elsewhere weights are widened, see ops/packed_gemm.h.
void pack_bfloat16_panels(ConstView weight, PackedMatrix& result);
void bfloat16_linear(Context& ctx, ConstView x, const PackedMatrix& weight,
                     const Epilogue& epilogue, View out);

}  // namespace sam_rlx
