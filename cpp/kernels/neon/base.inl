// What every object with NEON begins with. Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/bodies/prelude.inl"
#include "kernels/neon/simd.inl"

// docs/develop/optimizations.md: arm-tile
constexpr int kMr = 8;
constexpr int kNv = 3;

#include "kernels/bodies/math.inl"
#include "kernels/bodies/normal_tail_exponent.inl"
#include "kernels/bodies/lanes.inl"
#include "kernels/bodies/gemm_result.inl"
// clang-format on
