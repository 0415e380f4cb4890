#include "core/half.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sam_rlx {

float half_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, which float32 holds exactly
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  constexpr std::uint32_t kRebias = 127 - 15;
  const std::uint32_t wide = exponent == 0x1FU ? 0xFFU : exponent + kRebias;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

float float8_e4m3_to_float(std::uint8_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xFU, mantissa = bits & 7U;
  if (exponent == 0) {  // zero or subnormal
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  if (exponent == 0xFU && mantissa == 7U) return std::bit_cast<float>(sign | 0x7FC00000U);
  constexpr std::uint32_t kRebias = 127 - 7;
  return std::bit_cast<float>(sign | ((exponent + kRebias) << 23) | (mantissa << 20));
}

namespace {

// One NaN, where the negative zero would be.
float fnuz_to_float(std::uint8_t bits, int mantissa_bits, int bias) noexcept {
  if (bits == 0x80) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = (bits & 0x7F) >> mantissa_bits, one = 1 << mantissa_bits;
  const int mantissa = bits & (one - 1);
  const auto magnitude = static_cast<float>(exponent == 0 ? mantissa : one + mantissa);
  const float value = std::ldexp(magnitude, std::max(exponent, 1) - bias - mantissa_bits);
  return (bits & 0x80) != 0 ? -value : value;
}

}  // namespace

float float8_e4m3fnuz_to_float(std::uint8_t bits) noexcept { return fnuz_to_float(bits, 3, 8); }
float float8_e5m2fnuz_to_float(std::uint8_t bits) noexcept { return fnuz_to_float(bits, 2, 16); }

float float8_e8m0_to_float(std::uint8_t bits) noexcept {
  if (bits == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0F, bits - 127);
}

std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7FFFFFFFU;
  constexpr std::uint32_t kInfinity = 0x7F800000U, kTooLarge = 0x47800000U, kNormal = 0x38800000U;
  std::uint32_t result = 0x7C00U;
  if (magnitude > kInfinity) {
    result = 0x7E00U | ((magnitude >> 13) & 0x3FFU);
  } else if (magnitude < kNormal) {  // multiples of 2^-24: the sum rounds to a whole number
    constexpr float kWhole = 0x1p23F;
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
    result = std::bit_cast<std::uint32_t>(scaled + kWhole) - std::bit_cast<std::uint32_t>(kWhole);
  } else if (magnitude < kTooLarge) {
    constexpr std::uint32_t kRebias = (127U - 15U) << 23;
    result = (magnitude - kRebias + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | result);
}

std::uint16_t float_to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace sam_rlx
