#include "core/blocks.h"

#include <bit>
#include <cstring>

#include "core/half.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kSuper = 256;  // numbers of a block of a K format

constexpr BlockFacts kFacts[] = {
    {"Q4_0", 32, 18},      {"Q8_0", 32, 34},      {"Q2_K", kSuper, 84},  {"Q3_K", kSuper, 110},
    {"Q4_K", kSuper, 144}, {"Q5_K", kSuper, 176}, {"Q6_K", kSuper, 210}, {"Q8_K", kSuper, 292},
    {"Q4_1", 32, 20},      {"Q5_0", 32, 22},      {"Q5_1", 32, 24},      {"MXFP4", 32, 17}};

using Bytes = const std::uint8_t*;

float half_at(Bytes position) noexcept {
  std::uint16_t bits;
  std::memcpy(&bits, position, sizeof bits);
  return half_to_float(bits);
}

// Scale (half), 16 bytes: number j in the low half of byte j, number 16 + j in the high half.
void unpack_q4_0(Bytes block, float* out) noexcept {
  const float d = half_at(block);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[2 + j];
    out[j] = d * static_cast<float>((byte & 0xF) - 8);
    out[16 + j] = d * static_cast<float>((byte >> 4) - 8);
  }
}

// Scale (half), 32 signed bytes.
void unpack_q8_0(Bytes block, float* out) noexcept {
  const float d = half_at(block);
  for (int j = 0; j < 32; ++j) {
    out[j] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + j]));
  }
}

// 16 bytes of scale (low half) and minimum (high half); 64 bytes of two bits; d and dmin (half).
// Bits 2k of byte 32 h + l belong to number 128 h + 32 k + l.
void unpack_q2_k(Bytes block, float* out) noexcept {
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(block[part] & 0xF);
    const float minimum = dmin * static_cast<float>(block[part] >> 4);
    const Bytes bytes = block + 16 + part / 8 * 32 + part % 2 * 16;
    const int shift = part / 2 % 4 * 2;
    for (int j = 0; j < 16; ++j) {
      out[part * 16 + j] = scale * static_cast<float>((bytes[j] >> shift) & 3) - minimum;
    }
  }
}

// 32 bytes of third bits, number 32 k + l in bit k of byte l, where 0 takes 4 off; 64 bytes of two
// bits as in Q2_K; 12 bytes of scales; d (half).
void unpack_q3_k(Bytes block, float* out) noexcept {
  const float d = half_at(block + 108);
  std::int8_t scales[16];
  unpack_signed_scales(block + 96, scales);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(scales[part]);
    const Bytes bytes = block + 32 + part / 8 * 32 + part % 2 * 16;
    const Bytes high = block + part % 2 * 16;
    const int shift = part / 2 % 4 * 2, bit = part / 2;
    for (int j = 0; j < 16; ++j) {
      const int q = ((bytes[j] >> shift) & 3) - (((high[j] >> bit) & 1) == 0 ? 4 : 0);
      out[part * 16 + j] = scale * static_cast<float>(q);
    }
  }
}

// d and dmin (half); 12 bytes of scales and minima; 128 bytes: number 64 c + l in the low half of
// byte 32 c + l, number 64 c + 32 + l in the high half.
void unpack_q4_k(Bytes block, float* out) noexcept {
  const float d = half_at(block), dmin = half_at(block + 2);
  std::uint8_t scales[8], minima[8];
  unpack_scales_and_minima(block + 4, scales, minima);
  for (int part = 0; part < 8; ++part) {
    const float scale = d * static_cast<float>(scales[part]);
    const float minimum = dmin * static_cast<float>(minima[part]);
    const Bytes bytes = block + 16 + part / 2 * 32;
    const int shift = part % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      out[part * 32 + j] = scale * static_cast<float>((bytes[j] >> shift) & 0xF) - minimum;
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits before the halves: number 32 k + l in bit k of byte l.
void unpack_q5_k(Bytes block, float* out) noexcept {
  const float d = half_at(block), dmin = half_at(block + 2);
  std::uint8_t scales[8], minima[8];
  unpack_scales_and_minima(block + 4, scales, minima);
  for (int part = 0; part < 8; ++part) {
    const float scale = d * static_cast<float>(scales[part]);
    const float minimum = dmin * static_cast<float>(minima[part]);
    const Bytes bytes = block + 48 + part / 2 * 32, high = block + 16;
    const int shift = part % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      const int q = ((bytes[j] >> shift) & 0xF) | (((high[j] >> part) & 1) << 4);
      out[part * 32 + j] = scale * static_cast<float>(q) - minimum;
    }
  }
}

// 128 bytes of low halves: number 128 h + 64 k + l in half k of byte 64 h + l; 64 bytes of two high
// bits as in Q2_K; 16 signed scales; d (half). 32 is taken off.
void unpack_q6_k(Bytes block, float* out) noexcept {
  const float d = half_at(block + 208);
  for (int part = 0; part < 16; ++part) {
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(block[192 + part]));
    const Bytes low = block + part / 8 * 64 + part % 4 * 16;
    const Bytes high = block + 128 + part / 8 * 32 + part % 2 * 16;
    const int low_shift = part / 4 % 2 * 4, high_shift = part / 2 % 4 * 2;
    for (int j = 0; j < 16; ++j) {
      const int q = ((low[j] >> low_shift) & 0xF) | (((high[j] >> high_shift) & 3) << 4);
      out[part * 16 + j] = scale * static_cast<float>(q - 32);
    }
  }
}

// Scale (float32), 256 signed bytes, 16 sums of 16 of them, which only products use.
void unpack_q8_k(Bytes block, float* out) noexcept {
  float d;
  std::memcpy(&d, block, sizeof d);
  for (int j = 0; j < kSuper; ++j) {
    out[j] = d * static_cast<float>(static_cast<std::int8_t>(block[4 + j]));
  }
}

// Scale and minimum (half), 16 bytes as in Q4_0.
void unpack_q4_1(Bytes block, float* out) noexcept {
  const float d = half_at(block), minimum = half_at(block + 2);
  for (int j = 0; j < 16; ++j) {
    const int byte = block[4 + j];
    out[j] = d * static_cast<float>(byte & 0xF) + minimum;
    out[16 + j] = d * static_cast<float>(byte >> 4) + minimum;
  }
}

// The number 0 to 31 at position j, of 4 bytes of fifth bits, number j in bit j, and 16 bytes of
// the other bits as in Q4_0.
int five_bits(Bytes packed, int j) noexcept {
  const int low = j < 16 ? packed[4 + j] & 0xF : packed[4 + j - 16] >> 4;
  return low | (((packed[j / 8] >> (j % 8)) & 1) << 4);
}

// Scale (half), 20 bytes of five bits.
void unpack_q5_0(Bytes block, float* out) noexcept {
  const float d = half_at(block);
  for (int j = 0; j < 32; ++j) out[j] = d * static_cast<float>(five_bits(block + 2, j) - 16);
}

// Scale and minimum (half), 20 bytes of five bits.
void unpack_q5_1(Bytes block, float* out) noexcept {
  const float d = half_at(block), minimum = half_at(block + 2);
  for (int j = 0; j < 32; ++j) {
    out[j] = d * static_cast<float>(five_bits(block + 4, j)) + minimum;
  }
}

// A byte of exponent, then 16 bytes as in Q4_0 of floats with two bits of exponent and one of
// mantissa: the table holds them twice as large, and the scale is half of 2^(exponent - 127).
void unpack_mxfp4(Bytes block, float* out) noexcept {
  constexpr float kDoubled[16] = {0.0F, 1.0F,  2.0F,  3.0F,  4.0F,  6.0F,  8.0F,  12.0F,
                                  0.0F, -1.0F, -2.0F, -3.0F, -4.0F, -6.0F, -8.0F, -12.0F};
  const std::uint32_t exponent = block[0];
  // The two smallest scales are subnormal.
  const std::uint32_t bits = exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23;
  const auto d = std::bit_cast<float>(bits);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * kDoubled[block[1 + j] & 0xF];
    out[16 + j] = d * kDoubled[block[1 + j] >> 4];
  }
}

using Unpack = void (*)(Bytes, float*) noexcept;
constexpr Unpack kUnpack[] = {unpack_q4_0, unpack_q8_0, unpack_q2_k, unpack_q3_k,
                              unpack_q4_k, unpack_q5_k, unpack_q6_k, unpack_q8_k,
                              unpack_q4_1, unpack_q5_0, unpack_q5_1, unpack_mxfp4};

}  // namespace

const BlockFacts& block_facts(BlockFormat format) noexcept {
  return kFacts[static_cast<std::size_t>(format)];
}

void unpack_blocks(BlockFormat format, const std::byte* blocks, std::int64_t count,
                   float* out) noexcept {
  const BlockFacts& facts = block_facts(format);
  const Unpack unpack = kUnpack[static_cast<std::size_t>(format)];
  const Bytes first = reinterpret_cast<Bytes>(blocks);
  for (std::int64_t i = 0; i < count / facts.numbers; ++i) {
    unpack(first + i * facts.bytes, out + i * facts.numbers);
  }
}

std::int64_t BlockRows::row_bytes() const {
  const BlockFacts& facts = block_facts(format);
  return cols / facts.numbers * facts.bytes;
}

void unpack_scales_and_minima(const std::uint8_t* packed, std::uint8_t* scales,
                              std::uint8_t* minima) noexcept {
  for (int i = 0; i < 4; ++i) {
    scales[i] = packed[i] & 0x3F;
    minima[i] = packed[4 + i] & 0x3F;
    scales[4 + i] = static_cast<std::uint8_t>((packed[8 + i] & 0xF) | ((packed[i] >> 2) & 0x30));
    minima[4 + i] = static_cast<std::uint8_t>((packed[8 + i] >> 4) | ((packed[4 + i] >> 2) & 0x30));
  }
}

void unpack_signed_scales(const std::uint8_t* packed, std::int8_t* scales) noexcept {
  for (int i = 0; i < 16; ++i) {
    const int low = (packed[i % 8] >> (i / 8 * 4)) & 0xF;
    const int high = (packed[8 + i % 4] >> (i / 4 * 2)) & 3;
    scales[i] = static_cast<std::int8_t>((low | (high << 4)) - 32);
  }
}

}  // namespace sam_rlx
