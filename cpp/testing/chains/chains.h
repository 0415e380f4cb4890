#pragma once

#include <cstdint>

// The peak of one core, which benchmarks compare with: multiply-adds that wait for nothing but
// their own chains. One function per object file, compiled with the flags of the kernels of its
// instruction set: nothing is inline here.

namespace sam_rlx {

// rounds * 48 multiply-adds in each lane. Returns a number that depends on all of them.
float generic_chains(std::int64_t rounds) noexcept;
float avx2_chains(std::int64_t rounds) noexcept;
float avx512_chains(std::int64_t rounds) noexcept;
float neon_chains(std::int64_t rounds) noexcept;

}  // namespace sam_rlx
