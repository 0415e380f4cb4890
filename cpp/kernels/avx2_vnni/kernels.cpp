#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace {

#include "kernels/avx2/base.inl"

constexpr int kInt8Mr = 6;  // docs/develop/optimizations.md: register-tile

// c + the four products of each group of unsigned a and signed b.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  return {_mm256_dpbusd_avx_epi32(c.v, a.v, b.v)};
}

// c += the two products of each pair, in the register of c: see add_product.
SAM_RLX_INLINE void dot2(IntVec& c, Pairs a, Pairs b) {
  asm volatile("%{vex%} vpdpwssd %2, %1, %0" : "+x"(c.v) : "x"(a.v), "x"(b.v) : "memory");
}

// clang-format off
#include "kernels/bodies/int8_gemm.inl"
#include "kernels/bodies/int16_products.inl"
#include "kernels/bodies/int16_gemm.inl"
#include "kernels/bodies/softmax_columns.inl"
#include "kernels/bodies/attention_tiles.inl"
#include "kernels/bodies/attention_int16.inl"
#include "kernels/bodies/position_scores_int16.inl"
// clang-format on

}  // namespace

void sam_rlx::avx2_vnni_kernels(KernelTable& table) noexcept {
  table.name = "avx2_vnni";
  table.int8_mr = kInt8Mr;
  table.int8_gemm = int8_gemm;
  table.int16_gemm = int16_gemm;
  table.attend_int16 = attend_int16;
  table.position_scores_int16 = position_scores_int16;
}
