#include <immintrin.h>

#include "kernels/kernel_table.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header reads what it calls undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/bodies/prelude.inl"
#include "kernels/avx512/simd.inl"
// clang-format on

constexpr int kNv = 2;
constexpr int kInt8Mr = 6;  // docs/optimizations.md: register-tile

// c + the four products of each group of unsigned a and signed b.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  return {_mm512_dpbusd_epi32(c.v, a.v, b.v)};
}

// clang-format off
#include "kernels/bodies/math.inl"
#include "kernels/bodies/normal_tail_table.inl"
#include "kernels/bodies/lanes.inl"
#include "kernels/bodies/gemm_result.inl"
#include "kernels/bodies/int8_gemm.inl"
// clang-format on

}  // namespace

void sam_rlx::avx512_vnni_kernels(KernelTable& table) noexcept {
  table.name = "avx512_vnni";
  table.int8_mr = kInt8Mr;
  table.int8_gemm = int8_gemm;
}
