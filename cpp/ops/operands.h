#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"

namespace sam_rlx {

// Operands of KernelTable::gemm.

// A (m, k), given by its rows, which begin `stride` floats apart, or by its columns.
inline LeftOperand left_rows(const KernelTable& kernels, const float* rows, std::int64_t stride) {
  return {rows, stride, 1, kernels.gemm_mr * stride};
}
inline LeftOperand left_columns(const KernelTable& kernels, const float* columns,
                                std::int64_t stride) {
  return {columns, 1, stride, kernels.gemm_mr};
}
// A packed into panels of gemm_mr rows.
inline LeftOperand left_panels(const KernelTable& kernels, const float* panels, std::int64_t k) {
  return {panels, 1, kernels.gemm_mr, kernels.gemm_mr * k};
}

// B (k, n), given by its rows, which begin `stride` floats apart.
inline RightOperand right_rows(const KernelTable& kernels, const float* rows, std::int64_t stride) {
  return {rows, stride, kernels.gemm_nr};
}
// B packed into panels of gemm_nr columns.
inline RightOperand right_panels(const KernelTable& kernels, const float* panels, std::int64_t k) {
  return {panels, kernels.gemm_nr, kernels.gemm_nr * k};
}

// Where the number (i, p) of A lies in panels of PanelShape, whose rows take `stride` numbers each:
// a multiple of `depth`. For B, i is the column and `left_rows` gemm_nr.
constexpr std::int64_t panel_position(PanelShape shape, std::int64_t stride, std::int64_t i,
                                      std::int64_t p) {
  const std::int64_t width = shape.left_rows, depth = shape.depth;
  return ((i / width * (stride / depth) + p / depth) * width + i % width) * depth + p % depth;
}
constexpr PanelShape right_shape(const KernelTable& kernels, PanelShape shape) {
  return {kernels.gemm_nr, shape.depth};
}

}  // namespace sam_rlx
