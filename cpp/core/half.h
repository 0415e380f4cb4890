#pragma once

#include <bit>
#include <cstdint>

namespace sam_rlx {

// IEEE binary16 to float32. Exact for every input, NaN payloads included.
float half_to_float(std::uint16_t bits) noexcept;

// bfloat16 is the upper half of a float32.
inline float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Rounded to nearest even; numbers that are none stay so.
std::uint16_t float_to_bfloat16(float value) noexcept;

}  // namespace sam_rlx
