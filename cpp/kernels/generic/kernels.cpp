#include <cmath>

#include "kernels/kernel_table.h"

namespace {

constexpr std::int32_t kMr = 4;
constexpr std::int32_t kNr = 8;

float activate(float x, sam_rlx::GemmActivation activation) {
  if (activation == sam_rlx::kGemmRelu) return x > 0.0F ? x : 0.0F;
  if (activation == sam_rlx::kGemmGelu) {
    return 0.5F * x * (1.0F + std::erf(x * 0.70710678118654752F));
  }
  return x;
}

void gemm(const sam_rlx::GemmArgs& g) noexcept {
  for (std::int64_t i = 0; i < g.m; ++i) {
    const float* const a = g.a + (i / kMr) * g.a_panel_stride + (i % kMr) * g.a_row_stride;
    for (std::int64_t j = 0; j < g.n; ++j) {
      const float* const b = g.b + (j / kNr) * g.b_panel_stride + j % kNr;
      float sum = 0.0F;
      for (std::int64_t p = 0; p < g.k; ++p) sum += a[p * g.a_k_stride] * b[p * g.b_k_stride];
      float& c = g.c[i * g.c_row_stride + j];
      if (g.accumulate) sum += c;
      if (g.column_bias != nullptr) sum += g.column_bias[j];
      if (g.row_bias != nullptr) sum += g.row_bias[i];
      sum = activate(sum, g.activation);
      if (g.residual != nullptr) sum += g.residual[i * g.residual_row_stride + j];
      c = sum;
    }
  }
}

void pack_weight(const float* weight, std::int64_t ldw, std::int64_t n, std::int64_t k,
                 float* out) noexcept {
  for (std::int64_t j = 0; j < (n + kNr - 1) / kNr * kNr; ++j) {
    float* const panel = out + (j / kNr) * k * kNr + j % kNr;
    for (std::int64_t p = 0; p < k; ++p) panel[p * kNr] = j < n ? weight[j * ldw + p] : 0.0F;
  }
}

void layer_norm_rows(const float* x, std::int64_t rows, std::int64_t cols, const float* weight,
                     const float* bias, float eps, float* out) noexcept {
  for (std::int64_t r = 0; r < rows; ++r, x += cols, out += cols) {
    float mean = 0.0F;
    for (std::int64_t c = 0; c < cols; ++c) mean += x[c];
    mean /= static_cast<float>(cols);
    float variance = 0.0F;
    for (std::int64_t c = 0; c < cols; ++c) variance += (x[c] - mean) * (x[c] - mean);
    variance /= static_cast<float>(cols);
    const float inverse = 1.0F / std::sqrt(variance + eps);
    for (std::int64_t c = 0; c < cols; ++c) out[c] = (x[c] - mean) * inverse * weight[c] + bias[c];
  }
}

void gelu(float* x, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) x[i] = activate(x[i], sam_rlx::kGemmGelu);
}

void exp_columns(float* x, std::int64_t rows, std::int64_t cols, float* max, float* sum) noexcept {
  for (std::int64_t c = 0; c < cols; ++c) {
    max[c] = x[c];
    sum[c] = 0.0F;
  }
  for (std::int64_t i = 0; i < rows * cols; ++i) max[i % cols] = std::fmax(max[i % cols], x[i]);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    x[i] = std::exp(x[i] - max[i % cols]);
    sum[i % cols] += x[i];
  }
}

void softmax_rows(float* x, std::int64_t rows, std::int64_t cols, float scale) noexcept {
  for (std::int64_t r = 0; r < rows; ++r, x += cols) {
    float max = x[0];
    for (std::int64_t c = 1; c < cols; ++c) max = std::fmax(max, x[c]);
    float sum = 0.0F;
    for (std::int64_t c = 0; c < cols; ++c) {
      x[c] = std::exp((x[c] - max) * scale);
      sum += x[c];
    }
    for (std::int64_t c = 0; c < cols; ++c) x[c] /= sum;
  }
}

void softmax_groups(float* x, std::int64_t rows, std::int64_t groups, std::int64_t lanes) noexcept {
  for (std::int64_t r = 0; r < rows; ++r, x += groups * lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      float* const y = x + lane;
      float max = y[0];
      for (std::int64_t g = 1; g < groups; ++g) max = std::fmax(max, y[g * lanes]);
      float sum = 0.0F;
      for (std::int64_t g = 0; g < groups; ++g) {
        y[g * lanes] = std::exp(y[g * lanes] - max);
        sum += y[g * lanes];
      }
      for (std::int64_t g = 0; g < groups; ++g) y[g * lanes] /= sum;
    }
  }
}

void layer_norm_columns(float* x, std::int64_t channels, std::int64_t cols, const float* weight,
                        const float* bias, float eps) noexcept {
  const float count = static_cast<float>(channels);
  for (std::int64_t j = 0; j < cols; ++j) {
    float mean = 0.0F;
    for (std::int64_t c = 0; c < channels; ++c) mean += x[c * cols + j];
    mean /= count;
    float variance = 0.0F;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float d = x[c * cols + j] - mean;
      variance += d * d;
    }
    const float inverse = 1.0F / std::sqrt(variance / count + eps);
    for (std::int64_t c = 0; c < channels; ++c) {
      x[c * cols + j] = (x[c * cols + j] - mean) * inverse * weight[c] + bias[c];
    }
  }
}

constexpr sam_rlx::KernelTable kTable{
    .name = "generic",
    .gemm_mr = kMr,
    .gemm_nr = kNr,
    .gemm = gemm,
    .pack_weight = pack_weight,
    .layer_norm_rows = layer_norm_rows,
    .exp_columns = exp_columns,
    .softmax_rows = softmax_rows,
    .softmax_groups = softmax_groups,
    .layer_norm_columns = layer_norm_columns,
    .gelu = gelu,
};

}  // namespace

const sam_rlx::KernelTable& sam_rlx::generic_kernels() noexcept { return kTable; }
