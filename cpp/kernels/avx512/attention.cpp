#include <immintrin.h>

#include "kernels/avx512/parts.h"
#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/products.inl"
#include "kernels/avx512/gemm_calls.inl"
#include "kernels/avx512/dot2.inl"
#include "kernels/bodies/softmax_columns.inl"
#include "kernels/bodies/attention_tiles.inl"
#include "kernels/bodies/attention.inl"
#include "kernels/bodies/int16_products.inl"
#include "kernels/bodies/int16_gemm.inl"
#include "kernels/bodies/attention_int16.inl"
#include "kernels/bodies/position_scores_int16.inl"
// clang-format on

}  // namespace

void sam_rlx::avx512_softmax_columns(const SoftmaxColumnsArgs& s) noexcept { softmax_columns(s); }

void sam_rlx::avx512_attend_columns(const AttendColumnsArgs& args) noexcept {
  attend_columns(args);
}

void sam_rlx::avx512_int16_gemm(const Int16GemmArgs& g) noexcept { int16_gemm(g); }

void sam_rlx::avx512_attend_int16(const AttendInt16Args& args) noexcept { attend_int16(args); }

void sam_rlx::avx512_position_scores_int16(const PositionScoresInt16Args& args) noexcept {
  position_scores_int16(args);
}

void sam_rlx::avx512_unpack_columns(const float* result, const float* sum, std::int64_t count,
                                    std::int64_t dim, float* const* rows) noexcept {
  unpack_columns(result, sum, count, dim, rows);
}
