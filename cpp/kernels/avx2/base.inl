// What every object with AVX2 begins with. Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/bodies/prelude.inl"
#include "kernels/avx2/simd.inl"

constexpr int kMr = 6, kNv = 2;  // docs/develop/optimizations.md: register-tile

#include "kernels/bodies/math.inl"
#include "kernels/bodies/normal_tail_exponent.inl"
#include "kernels/bodies/lanes.inl"
#include "kernels/bodies/gemm_result.inl"
// clang-format on
