#pragma once

#include "ops/linear.h"

namespace sam_rlx {

// The kBFloat16 case of pack_matrix where the table multiplies integers of 16 bits faster: the
// weights become such integers, each row with a scale. Inputs do too, see ops/packed_gemm.h.
void pack_int16_panels(ConstView weight, PackedMatrix& result);

}  // namespace sam_rlx
