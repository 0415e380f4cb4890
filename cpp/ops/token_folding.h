#pragma once

#include <cmath>
#include <cstdint>

#include "core/tensor.h"
#include "kernels/kernel_table.h"
#include "ops/linear.h"
#include "ops/operands.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {

// What both directions of attention between tokens and a map share: projections of the map's side
// that are moved to the tokens' side, see ops/token_attention.h.

// The plain weights (inner, C) and biases (inner,) of a projection, and its packed form.
struct Projection {
  ConstView weight;
  ConstView bias;
  const PackedMatrix* packed = nullptr;
};

// So many positions of the map get their encoding at once, and so many go through the map's
// attention to the tokens: what they need stays in L2. A multiple of gemm_nr.
// docs/develop/optimizations.md: decoder-steps.
constexpr std::int64_t kFoldStep = 96;

// Rows (N, inner) that are divided among the heads.
inline bool has_heads(const ConstView& x, std::int64_t heads) {
  return x.shape.rank() == 2 && heads > 0 && x.shape[1] > 0 && x.shape[1] % heads == 0;
}

inline bool has_columns(const ConstView& x, std::int64_t columns) {
  return x.shape.rank() == 2 && x.shape[1] == columns;
}

inline bool is_packed(const Projection& projection, std::int64_t rows, std::int64_t cols) {
  return projection.packed != nullptr && projection.packed->rows == rows &&
         projection.packed->cols == cols;
}

// Positions in whole panels: what pack_positions_t makes of (positions, inner).
inline bool is_packed_map(const KernelTable& kernels, const ConstView& x, std::int64_t positions,
                          std::int64_t inner) {
  return has_columns(x, inner) && x.shape[0] == round_up(positions, kernels.gemm_nr);
}

inline float* thread_slice(float* base, std::int64_t stride, int thread) {
  return base + stride * thread;
}

inline std::int64_t panels_size(const KernelTable& kernels, std::int64_t n, std::int64_t k) {
  return round_up(n, kernels.gemm_nr) * k;
}

inline void add_rows(const float* a, const float* b, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

inline float score_scale(std::int64_t dim) { return 1.0F / std::sqrt(static_cast<float>(dim)); }

// folded (N * heads, C): row n * heads + h is tokens[n, head h] . weight[head h, :].
inline void fold_tokens(const KernelTable& kernels, ConstView tokens, ConstView weight,
                        std::int64_t heads, float* folded) {
  const std::int64_t n = tokens.shape[0], inner = tokens.shape[1];
  const std::int64_t channels = weight.shape[1];
  const std::int64_t dim = inner / heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    kernels.gemm({.m = n,
                  .n = channels,
                  .k = dim,
                  .a = left_rows(kernels, tokens.data + h * dim, inner),
                  .b = right_rows(kernels, weight.data + h * dim * channels, channels),
                  .c = folded + h * channels,
                  .c_row_stride = heads * channels});
  }
}

}  // namespace sam_rlx
