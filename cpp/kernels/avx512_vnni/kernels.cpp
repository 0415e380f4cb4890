#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/products.inl"
#include "kernels/avx512/dot4_vnni.inl"
// clang-format on

constexpr int kInt8Mr = 6;  // docs/develop/optimizations.md: register-tile

// c += the two products of each pair, in the register of c: see add_product.
SAM_RLX_INLINE void dot2(IntVec& c, Pairs a, Pairs b) {
  asm volatile("vpdpwssd %2, %1, %0" : "+v"(c.v) : "v"(a.v), "v"(b.v) : "memory");
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

void sam_rlx::avx512_vnni_kernels(KernelTable& table) noexcept {
  table.name = "avx512_vnni";
  table.int8_mr = kInt8Mr;
  table.int8_gemm = int8_gemm;
  table.int16_gemm = int16_gemm;
  table.attend_int16 = attend_int16;
  table.position_scores_int16 = position_scores_int16;
  table.reduced_products = table.position_products = Products::kInt16;
}
