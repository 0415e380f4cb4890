#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/bodies/prelude.inl"
#include "kernels/generic/simd.inl"

constexpr int kNv = 2;

#include "kernels/bodies/math.inl"
#include "kernels/bodies/normal_tail_exponent.inl"
#include "kernels/bodies/lanes.inl"
#include "kernels/bodies/gemm_result.inl"
// clang-format on

constexpr const char* kName = "generic";
constexpr Index kBlockBytes = 160 * 1024;
constexpr auto kReducedProducts = sam_rlx::Products::kFloat32;
// Not measured; docs/develop/optimizations.md: register-tile.
constexpr int kMr = 4;
constexpr int kInt8Mr = 4;
constexpr int kMaxKc = 768;
constexpr bool kPrefetchPanel = false;
constexpr int kPrefetchSteps = 0;
constexpr bool kThirdFromMemory = false;
constexpr bool kByLane = false;
constexpr int kLastRows = kMr;

// clang-format off
#include "kernels/bodies/quantize_row.inl"
#include "kernels/bodies/all.inl"
#include "kernels/bodies/table.inl"
// clang-format on

}  // namespace

const sam_rlx::KernelTable& sam_rlx::generic_kernels() noexcept { return kTable; }
