#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/base.inl"
#include "kernels/avx512/dot4.inl"
// clang-format on

constexpr const char* kName = "avx512";
constexpr Index kBlockBytes = 320 * 1024;  // docs/optimizations.md: twice-the-rows
// docs/optimizations.md: register-tile, long-blocks, fetch-ahead, third-from-memory, last-rows.
constexpr int kMr = 14;
constexpr int kInt8Mr = 6;
constexpr int kMaxKc = 768;
constexpr bool kPrefetchPanel = false;
constexpr int kPrefetchSteps = 72;  // a weight comes from beyond the second-level cache
constexpr bool kThirdFromMemory = true;
constexpr int kLastRows = 5;

#include "kernels/bodies/table.inl"

}  // namespace

const sam_rlx::KernelTable& sam_rlx::avx512_kernels() noexcept { return kTable; }
