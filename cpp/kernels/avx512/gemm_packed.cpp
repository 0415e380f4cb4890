#include <immintrin.h>

#include "kernels/avx512/parts.h"
#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/products.inl"
#include "kernels/bodies/gemm.inl"
// clang-format on

}  // namespace

void sam_rlx::avx512_gemm_packed(const GemmArgs& g) noexcept { multiply<PackedRows>(g); }
