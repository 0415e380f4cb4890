#pragma once

#include <cstdint>

namespace sam_rlx {

// Applied to a GEMM's result after the bias, before the residual.
enum GemmActivation : std::int32_t { kGemmNone = 0, kGemmRelu = 1, kGemmGelu = 2 };

// C (m, n) = activation(A (m, k) * B (k, n) [+ C] + bias) + residual, float32, one thread.
//   A(i, p) = a[(i / mr) * a_panel_stride + (i % mr) * a_row_stride + p * a_k_stride]
//   B(p, j) = b[(j / nr) * b_panel_stride + p * b_k_stride + j % nr]
// where mr, nr are the table's gemm_mr, gemm_nr. So a plain row-major A has row stride lda, k
// stride 1 and panel stride mr * lda; a packed A has row stride 1, k stride mr, panel stride
// mr * k. A plain row-major B has k stride ldb and panel stride nr. No element outside (m, k) of
// A, (k, n) of B or (m, n) of C is touched. A, B and C do not overlap; residual may be C.
struct GemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t a_row_stride = 0, a_k_stride = 1, a_panel_stride = 0;
  const float* b = nullptr;
  std::int64_t b_k_stride = 0, b_panel_stride = 0;
  float* c = nullptr;
  std::int64_t c_row_stride = 0;
  bool accumulate = false;             // add to what C holds, before bias and activation
  const float* column_bias = nullptr;  // (n,)
  const float* row_bias = nullptr;     // (m,)
  GemmActivation activation = kGemmNone;
  const float* residual = nullptr;  // (m, n)
  std::int64_t residual_row_stride = 0;
};

// The kernels of one instruction set: plain C-style functions of pointers and sizes, one thread,
// no allocation. Every row is filled in every table.
struct KernelTable {
  const char* name;               // "avx2"
  std::int32_t gemm_mr, gemm_nr;  // register tile; packed weights depend on it
  void (*gemm)(const GemmArgs&) noexcept;

  // Packs B (k, n), given as weight (n, k) row-major with row stride ldw, into panels of nr
  // columns: out[(j / nr) * k * nr + p * nr + j % nr]; missing columns are zero.
  void (*pack_weight)(const float* weight, std::int64_t ldw, std::int64_t n, std::int64_t k,
                      float* out) noexcept;

  // out(r, :) = (x(r, :) - mean) / sqrt(variance + eps) * weight + bias; two-pass biased variance.
  // out may be x.
  void (*layer_norm_rows)(const float* x, std::int64_t rows, std::int64_t cols, const float* weight,
                          const float* bias, float eps, float* out) noexcept;

  // x(:, c) = exp(x(:, c) - max_c) for each column; the largest value and the sum of exponentials
  // go to max (cols,) and sum (cols,). Row stride is cols.
  void (*exp_columns)(float* x, std::int64_t rows, std::int64_t cols, float* max,
                      float* sum) noexcept;
  // x(r, :) = softmax(x(r, :) * scale). Row stride is cols.
  void (*softmax_rows)(float* x, std::int64_t rows, std::int64_t cols, float scale) noexcept;
  // Each row holds `groups` runs of `lanes` numbers; softmax over the groups, for each lane.
  void (*softmax_groups)(float* x, std::int64_t rows, std::int64_t groups,
                         std::int64_t lanes) noexcept;
  // Channel norm of a channels-first block (channels, cols), in place: each column is normalised
  // over its channels and scaled by weight (channels,) and bias (channels,).
  void (*layer_norm_columns)(float* x, std::int64_t channels, std::int64_t cols,
                             const float* weight, const float* bias, float eps) noexcept;

  // Exact (erf) GELU of n numbers in place; absolute error below 1e-6 of the largest value.
  void (*gelu)(float* x, std::int64_t n) noexcept;
};

// One function per ISA object file.
const KernelTable& generic_kernels() noexcept;
const KernelTable& avx2_kernels() noexcept;
const KernelTable& avx512_kernels() noexcept;
const KernelTable& neon_kernels() noexcept;

}  // namespace sam_rlx
