#include <immintrin.h>

#include "kernels/avx512/parts.h"
#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/products.inl"
#include "kernels/avx512/gemm_calls.inl"
#include "kernels/avx512/dot4.inl"
// clang-format on

constexpr const char* kName = "avx512";
constexpr Index kBlockBytes = 320 * 1024;  // docs/develop/optimizations.md: twice-the-rows
constexpr int kInt8Mr = 6;                 // docs/develop/optimizations.md: register-tile

constexpr auto kReducedProducts = sam_rlx::Products::kFloat32;
constexpr auto softmax_columns = sam_rlx::avx512_softmax_columns;
constexpr auto attend_columns = sam_rlx::avx512_attend_columns;
constexpr auto int16_gemm = sam_rlx::avx512_int16_gemm;
constexpr auto attend_int16 = sam_rlx::avx512_attend_int16;
constexpr auto position_scores_int16 = sam_rlx::avx512_position_scores_int16;
constexpr auto unpack_columns = sam_rlx::avx512_unpack_columns;

// clang-format off
#include "kernels/bodies/quantize_row.inl"
#include "kernels/bodies/others.inl"
#include "kernels/bodies/table.inl"
// clang-format on

}  // namespace

const sam_rlx::KernelTable& sam_rlx::avx512_kernels() noexcept { return kTable; }
