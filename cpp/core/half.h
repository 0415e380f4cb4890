#pragma once

#include <bit>
#include <cstdint>

namespace sam_rlx {

// IEEE binary16 to float32. Exact for every input, NaN payloads included.
float half_to_float(std::uint16_t bits) noexcept;
// Rounds to nearest, ties to even; beyond 65504 to infinity. NaN stays NaN.
std::uint16_t float_to_half(float value) noexcept;

// The 8-bit floats of PyTorch's float8_e4m3fn (no infinity, one NaN) and float8_e5m2 (the upper
// half of a binary16) to float32, exact.
float float8_e4m3_to_float(std::uint8_t bits) noexcept;
inline float float8_e5m2_to_float(std::uint8_t bits) noexcept {
  return half_to_float(static_cast<std::uint16_t>(bits << 8));
}

// AMD's kinds of both (float8_e4m3fnuz, float8_e5m2fnuz: no infinity, no negative zero), and powers
// of two (float8_e8m0fnu); exact.
float float8_e4m3fnuz_to_float(std::uint8_t bits) noexcept;
float float8_e5m2fnuz_to_float(std::uint8_t bits) noexcept;
float float8_e8m0_to_float(std::uint8_t bits) noexcept;

// bfloat16 is the upper half of a float32.
inline float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
// Rounds to nearest, ties to even. NaN stays NaN.
std::uint16_t float_to_bfloat16(float value) noexcept;

}  // namespace sam_rlx
