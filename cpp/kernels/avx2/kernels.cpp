#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx2/base.inl"
#include "kernels/avx2/dot2.inl"
#include "kernels/avx2/dot4.inl"
// clang-format on

constexpr const char* kName = "avx2";
constexpr Index kBlockBytes = 160 * 1024;  // docs/develop/optimizations.md: cache-blocks
constexpr auto kReducedProducts = sam_rlx::Products::kInt16;
// docs/develop/optimizations.md: register-tile, eight-steps, next-panel, last-rows.
constexpr int kInt8Mr = 4;
// 16 columns of so many rows of B stay in a first-level cache of 32 KB while A and C pass by.
constexpr int kMaxKc = 384;
constexpr bool kPrefetchPanel = true;
constexpr int kPrefetchSteps = 0;         // 24 gained nothing: next-panel
constexpr bool kThirdFromMemory = false;  // an instruction of AVX-512
constexpr bool kByLane = false;
constexpr int kLastRows = kMr;

// clang-format off
#include "kernels/bodies/quantize_row.inl"
#include "kernels/bodies/all.inl"
#include "kernels/bodies/table.inl"
// clang-format on

}  // namespace

const sam_rlx::KernelTable& sam_rlx::avx2_kernels() noexcept { return kTable; }
