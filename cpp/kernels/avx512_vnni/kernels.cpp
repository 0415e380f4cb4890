#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/base.inl"
#include "kernels/avx512/dot4_vnni.inl"
// clang-format on

constexpr int kInt8Mr = 6;  // docs/develop/optimizations.md: register-tile

#include "kernels/bodies/int8_gemm.inl"

}  // namespace

void sam_rlx::avx512_vnni_kernels(KernelTable& table) noexcept {
  table.name = "avx512_vnni";
  table.int8_mr = kInt8Mr;
  table.int8_gemm = int8_gemm;
}
