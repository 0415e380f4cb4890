#pragma once

#include <cstdint>
#include <vector>

#include "core/blocks.h"
#include "core/context.h"
#include "ops/activation.h"
#include "ops/weight_format.h"

namespace sam_rlx {

enum class Products : std::int32_t;

// A weight (rows = out features, cols = in features) in the panel layout of one kernel table.
struct PackedMatrix {
  const KernelTable* kernels = nullptr;
  WeightFormat format = WeightFormat::kFloat32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Tensor panels;       // kFloat32
  AlignedBlock bytes;  // kBFloat16: the same panels, or those that the table's reduced_products
                       // need; kInt8: those of PackInt8Args
  Tensor scales;       // one for each row: of kInt8, and of kBFloat16 where products are of int16
  std::vector<std::int32_t> sums;  // kInt8: of PackInt8Args too

  BlockRows blocks;  // kBlocks

  // What products with it multiply.
  Products products() const;
  // The panels of a float32 weight. Raises InternalError for another one: the caller computes with
  // the numbers themselves.
  const float* floats() const;
};

// Packs a weight (out, in).
PackedMatrix pack_matrix(const KernelTable& kernels, ConstView weight,
                         WeightFormat format = WeightFormat::kFloat32);

// Takes over a weight (out, in) in blocks. Raises InvalidArgument when they do not fit the rows.
PackedMatrix pack_blocks(const KernelTable& kernels, BlockRows weight);

// What is fused behind the product: activation(x W^T + bias) + residual.
struct Epilogue {
  const float* bias = nullptr;  // (out,)
  Activation activation = Activation::kNone;
  ConstView residual = {};  // shape of the result; may be the result itself
};

// x (..., in) -> out (..., out). Raises InternalError when `weight` was packed for another table.
//
// With an int8 weight each row of x is rounded to 8 bits between its smallest and largest number,
// and each row of the weight to 8 bits; their products are summed exactly. What is fused behind is
// float32. A row of x with NaN or infinity gives a row of NaN.
void linear(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
            View out);

}  // namespace sam_rlx
