#include <arm_neon.h>

#include "kernels/kernel_table.h"
#include "kernels/neon/parts.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/products.inl"
#include "kernels/bodies/gemm.inl"
// clang-format on

}  // namespace

void sam_rlx::neon_gemm_packed(const GemmArgs& g) noexcept { multiply<PackedRows>(g); }
