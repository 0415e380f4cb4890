#pragma once

#include "core/tensor.h"

namespace sam_rlx {

// A linear map of channels behind another one, as one: sums in double, rounded once.
// weight (out, mid, ...ones) behind rows (mid, ...) -> (out, the rest of rows)
Tensor folded_weight(ConstView weight, ConstView rows);
// weight (out, mid, ...ones), bias (out,) behind a bias (mid,) -> (out,)
Tensor folded_bias(ConstView weight, ConstView bias, ConstView inner);

}  // namespace sam_rlx
