#pragma once

#include "core/context.h"
#include "ops/activation.h"

namespace sam_rlx {

// A weight (rows = out features, cols = in features) in the panel layout of one kernel table.
struct PackedMatrix {
  const KernelTable* kernels = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Tensor panels;
};

// Packs a weight (out, in).
PackedMatrix pack_matrix(const KernelTable& kernels, ConstView weight);

// What is fused behind the product: activation(x W^T + bias) + residual.
struct Epilogue {
  const float* bias = nullptr;  // (out,)
  Activation activation = Activation::kNone;
  ConstView residual = {};  // shape of the result; may be the result itself
};

// x (..., in) -> out (..., out). Raises InternalError when `weight` was packed for another table.
void linear(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
            View out);

}  // namespace sam_rlx
