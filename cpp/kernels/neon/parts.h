#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"

// Kernels of the NEON table that are compiled in objects of their own: one would take long.

namespace sam_rlx {

// gemm, where A and B are packed and elsewhere.
void neon_gemm_packed(const GemmArgs& g) noexcept;
void neon_gemm_plain(const GemmArgs& g) noexcept;

void neon_softmax_columns(const SoftmaxColumnsArgs& s) noexcept;
void neon_attend_columns(const AttendColumnsArgs& args) noexcept;
void neon_int16_gemm(const Int16GemmArgs& g) noexcept;
void neon_attend_int16(const AttendInt16Args& args) noexcept;
void neon_position_scores_int16(const PositionScoresInt16Args& args) noexcept;
void neon_unpack_columns(const float* result, const float* sum, std::int64_t count,
                         std::int64_t dim, float* const* rows) noexcept;

}  // namespace sam_rlx
