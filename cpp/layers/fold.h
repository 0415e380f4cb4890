#pragma once

#include "core/tensor.h"

namespace sam_rlx {

// Linear algebra of weights, for fold(). Sums are in double and are rounded once.

// A linear map of channels, weight (out, mid, ...ones), behind another whose channels are an axis
// of `inner`, as one: that axis, of mid, becomes one of out.
Tensor folded_weight(ConstView weight, ConstView inner, int axis = 0);
// weight (out, mid, ...ones), bias (out,) or none, behind a bias (mid,) -> (out,)
Tensor folded_bias(ConstView weight, ConstView bias, ConstView inner);

// Weight and bias of a layer.
struct Affine {
  Tensor& weight;
  Tensor& bias;
};
// Puts a linear map of channels behind a layer, as one; `next` gives its weights up. axis: of the
// layer's weight, its channels.
void absorb(Affine layer, Affine next, int axis = 0);

// (rows, columns, ...): the first axis, and all others as one -> (columns, rows)
Tensor transposed(ConstView x);

}  // namespace sam_rlx
