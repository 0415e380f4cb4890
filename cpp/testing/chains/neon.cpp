#include <arm_neon.h>

#include "testing/chains/chains.h"

namespace {

// clang-format off
#include "kernels/bodies/prelude.inl"
#include "kernels/neon/simd.inl"
// clang-format on
#include "testing/chains/chains.inl"

}  // namespace

float sam_rlx::neon_chains(std::int64_t rounds) noexcept { return multiply_add_chains(rounds); }
