#include "checkpoint/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr float kLargest = 65504.0F;  // of float16, which scales are

void store_half(float value, std::uint8_t* out) noexcept {
  const std::uint16_t bits = float_to_half(value);
  std::memcpy(out, &bits, sizeof bits);
}

float inverse(float d) noexcept {
  const float id = d == 0.0F ? 0.0F : 1.0F / d;
  return std::isfinite(id) ? id : 0.0F;
}

void quantize_f32(const float* x, std::uint8_t* out) noexcept { std::memcpy(out, x, 4); }

void quantize_f16(const float* x, std::uint8_t* out) noexcept { store_half(*x, out); }

void quantize_bf16(const float* x, std::uint8_t* out) noexcept {
  const std::uint16_t bits = float_to_bfloat16(*x);
  std::memcpy(out, &bits, sizeof bits);
}

// The number of the largest magnitude of a block of 32.
float extreme_of(const float* x) noexcept {
  float extreme = 0.0F;
  for (int j = 0; j < 32; ++j) {
    if (std::fabs(x[j]) > std::fabs(extreme)) extreme = x[j];
  }
  return extreme;
}

// Levels of 4 bits: two in a byte, numbers 16 apart.
template <class Level>
void store_low_bits(const Level& level, std::uint8_t* out) noexcept {
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<std::uint8_t>((level(j) & 15) | (level(16 + j) << 4));
  }
}

// The fifth bits of 32 levels, the first number lowest.
template <class Level>
void store_fifth_bits(const Level& level, std::uint8_t* out) noexcept {
  std::uint32_t bits = 0;
  for (int j = 0; j < 32; ++j) bits |= static_cast<std::uint32_t>(level(j) >> 4) << j;
  for (int j = 0; j < 4; ++j) out[j] = static_cast<std::uint8_t>(bits >> (8 * j));
}

// The number of the largest magnitude becomes -8.
void quantize_q4_0(const float* x, std::uint8_t* out) noexcept {
  const float d = extreme_of(x) / -8.0F, id = inverse(d);
  store_half(d, out);
  const auto level = [&](int j) {
    return std::min(15, static_cast<int>(x[j] * id + 8.5F));  // never below zero
  };
  store_low_bits(level, out + 2);
}

// From the smallest number, level 0, to the largest; both are kept in float16.
template <int kBits>
void quantize_with_minimum(const float* x, std::uint8_t* out) noexcept {
  constexpr int kLast = (1 << kBits) - 1;
  const auto [smallest, largest] = std::minmax_element(x, x + 32);
  const float low = *smallest, d = (*largest - low) / static_cast<float>(kLast), id = inverse(d);
  store_half(d, out);
  store_half(low, out + 2);
  const auto level = [&](int j) {
    return std::min(kLast, static_cast<int>((x[j] - low) * id + 0.5F));
  };
  if constexpr (kBits == 5) store_fifth_bits(level, out + 4);
  store_low_bits(level, out + (kBits == 5 ? 8 : 4));
}

// The number of the largest magnitude becomes -16.
void quantize_q5_0(const float* x, std::uint8_t* out) noexcept {
  const float d = extreme_of(x) / -16.0F, id = inverse(d);
  store_half(d, out);
  const auto level = [&](int j) { return std::min(31, static_cast<int>(x[j] * id + 16.5F)); };
  store_fifth_bits(level, out + 2);
  store_low_bits(level, out + 6);
}

// Floats of 4 bits, 1 of them of fraction, with one power of 2: the nearest, of two the first.
void quantize_mxfp4(const float* x, std::uint8_t* out) noexcept {
  constexpr float kValues[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const float largest = std::fabs(extreme_of(x));
  const float power = largest > 0.0F ? std::floor(std::log2(largest)) - 2.0F : -127.0F;
  const int exponent = std::clamp(static_cast<int>(power), -127, 127);
  out[0] = static_cast<std::uint8_t>(exponent + 127);
  const float d = std::ldexp(1.0F, exponent - 1);  // values above are doubled
  const auto level = [&](int j) {
    int best = 0;
    for (int i = 1; i < 16; ++i) {
      if (std::fabs(d * kValues[i] - x[j]) < std::fabs(d * kValues[best] - x[j])) best = i;
    }
    return best;
  };
  store_low_bits(level, out + 1);
}

// The largest magnitude becomes 127; halves round away from zero.
void quantize_q8_0(const float* x, std::uint8_t* out) noexcept {
  float largest = 0.0F;
  for (int j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(x[j]));
  const float d = largest / 127.0F, id = inverse(d);
  store_half(d, out);
  for (int j = 0; j < 32; ++j) {
    out[2 + j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(std::round(x[j] * id)));
  }
}

void quantize_q8_k(const float* x, std::uint8_t* out) noexcept {
  const float d = fit_scale({x, 256}, -127, 127), id = inverse(d);
  std::memcpy(out, &d, sizeof d);
  for (int part = 0; part < 16; ++part) {
    std::int16_t sum = 0;
    for (int j = part * 16; j < part * 16 + 16; ++j) {
      const float q = std::nearbyint(std::clamp(x[j] * id, -127.0F, 127.0F));
      out[4 + j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(q));
      sum = static_cast<std::int16_t>(sum + static_cast<std::int16_t>(q));
    }
    std::memcpy(out + 260 + 2 * part, &sum, sizeof sum);
  }
}

template <BlockFormat kFormat>
void quantize_k(const float* x, std::uint8_t* out) noexcept {
  quantize_k_block(kFormat, x, out);
}

using QuantizeBlock = void (*)(const float*, std::uint8_t*) noexcept;

// Null for a dtype that is only read.
QuantizeBlock block_quantizer(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF32:
      return quantize_f32;
    case DType::kF16:
      return quantize_f16;
    case DType::kBF16:
      return quantize_bf16;
    case DType::kQ4_0:
      return quantize_q4_0;
    case DType::kQ4_1:
      return quantize_with_minimum<4>;
    case DType::kQ5_0:
      return quantize_q5_0;
    case DType::kQ5_1:
      return quantize_with_minimum<5>;
    case DType::kMXFP4:
      return quantize_mxfp4;
    case DType::kQ8_0:
      return quantize_q8_0;
    case DType::kQ2_K:
      return quantize_k<BlockFormat::kQ2_K>;
    case DType::kQ3_K:
      return quantize_k<BlockFormat::kQ3_K>;
    case DType::kQ4_K:
      return quantize_k<BlockFormat::kQ4_K>;
    case DType::kQ5_K:
      return quantize_k<BlockFormat::kQ5_K>;
    case DType::kQ6_K:
      return quantize_k<BlockFormat::kQ6_K>;
    case DType::kQ8_K:
      return quantize_q8_k;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_quantize(DType dtype) noexcept { return block_quantizer(dtype) != nullptr; }

std::int64_t quantized_bytes(DType dtype, std::int64_t count) {
  const std::int64_t block = dtype_numbers(dtype);
  if (!can_quantize(dtype) || count % block != 0) {
    fail(std::string("quantize to ") + dtype_name(dtype),
         "whole blocks of " + std::to_string(block) + " numbers of a type for GGUF",
         std::to_string(count) + " numbers");
  }
  return count / block * dtype_bytes(dtype);
}

void quantize(DType dtype, std::span<const float> numbers, std::byte* out, int num_threads,
              const std::string& where) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 14;  // numbers, whole blocks
  const auto count = static_cast<std::int64_t>(numbers.size());
  quantized_bytes(dtype, count);
  const QuantizeBlock quantize_block = block_quantizer(dtype);
  const std::int64_t block = dtype_numbers(dtype), bytes = dtype_bytes(dtype);
  const bool any_size = dtype == DType::kF32 || dtype == DType::kBF16;
  const auto held = [&](float x) { return any_size || std::fabs(x) <= kLargest; };
  auto* const first = reinterpret_cast<std::uint8_t*>(out);
  parallel_for(
      {num_threads, count, kChunk, kFunctionWork}, [&](std::int64_t begin, std::int64_t end, int) {
        const auto bad = std::find_if_not(numbers.begin() + begin, numbers.begin() + end, held);
        if (bad != numbers.begin() + end) {
          fail<CheckpointError>(where, std::string("numbers up to 65504 for ") + dtype_name(dtype),
                                std::to_string(*bad));
        }
        for (std::int64_t i = begin; i < end; i += block) {
          quantize_block(numbers.data() + i, first + i / block * bytes);
        }
      });
}

}  // namespace sam_rlx
