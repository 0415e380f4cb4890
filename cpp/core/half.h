#pragma once

#include <bit>
#include <cstdint>

namespace sam_rlx {

// IEEE binary16 to float32. Exact for every input, NaN payloads included.
float half_to_float(std::uint16_t bits) noexcept;
// Rounds to nearest, ties to even; beyond 65504 to infinity. NaN stays NaN.
std::uint16_t float_to_half(float value) noexcept;

// bfloat16 is the upper half of a float32.
inline float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
// Rounds to nearest, ties to even. NaN stays NaN.
std::uint16_t float_to_bfloat16(float value) noexcept;

}  // namespace sam_rlx
