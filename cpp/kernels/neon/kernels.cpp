#include <arm_neon.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/base.inl"
#include "kernels/neon/quantize_row.inl"
// clang-format on

constexpr const char* kName = "neon";
// docs/develop/optimizations.md: arm-tile
constexpr Index kBlockBytes = 320 * 1024;
constexpr int kInt8Mr = 4;
constexpr int kMaxKc = 768;
constexpr bool kPrefetchPanel = false;
constexpr int kPrefetchSteps = 0;
constexpr bool kThirdFromMemory = false;
constexpr bool kByLane = true;
constexpr int kLastRows = kMr;

// clang-format off
#include "kernels/bodies/all.inl"
#include "kernels/bodies/table.inl"
// clang-format on

}  // namespace

const sam_rlx::KernelTable& sam_rlx::neon_kernels() noexcept { return kTable; }
