#include <immintrin.h>

#include "testing/chains/chains.h"

namespace {

// clang-format off
#include "kernels/bodies/prelude.inl"
#include "kernels/avx512/simd.inl"
// clang-format on
#include "testing/chains/chains.inl"

}  // namespace

float sam_rlx::avx512_chains(std::int64_t rounds) noexcept { return multiply_add_chains(rounds); }
