#include <arm_neon.h>

#include "kernels/kernel_table.h"
#include "kernels/neon/parts.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/products.inl"
#include "kernels/neon/gemm_calls.inl"
#include "kernels/neon/quantize_row.inl"
// clang-format on

constexpr const char* kName = "neon";
// docs/develop/optimizations.md: arm-tile
constexpr Index kBlockBytes = 320 * 1024;
constexpr int kInt8Mr = 4;

constexpr auto kReducedProducts = sam_rlx::Products::kFloat32;
constexpr auto softmax_columns = sam_rlx::neon_softmax_columns;
constexpr auto attend_columns = sam_rlx::neon_attend_columns;
constexpr auto int16_gemm = sam_rlx::neon_int16_gemm;
constexpr auto attend_int16 = sam_rlx::neon_attend_int16;
constexpr auto position_scores_int16 = sam_rlx::neon_position_scores_int16;
constexpr auto unpack_columns = sam_rlx::neon_unpack_columns;

// clang-format off
#include "kernels/bodies/others.inl"
#include "kernels/bodies/table.inl"
// clang-format on

}  // namespace

const sam_rlx::KernelTable& sam_rlx::neon_kernels() noexcept { return kTable; }
