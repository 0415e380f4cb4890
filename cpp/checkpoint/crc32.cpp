#include "checkpoint/crc32.h"

#include <array>
#include <cstring>

#include "core/cpu.h"

#if defined(__x86_64__)
#include <wmmintrin.h>
#endif

namespace sam_rlx {
namespace {

// Bytes stand for a polynomial over bits, whose highest power is the lowest bit of the first byte.
// The sum is its remainder by this one.
constexpr std::uint32_t kPolynomial = 0xEDB88320;
constexpr std::uint32_t kFirst = 0xFFFFFFFF;

// The remainder times x.
constexpr std::uint32_t times_x(std::uint32_t sum) {
  return (sum >> 1) ^ ((sum & 1) != 0 ? kPolynomial : 0);
}

// ---------------------------------------------------------------- by tables

constexpr std::size_t kStep = 16;  // bytes that are looked up together

using Table = std::array<std::uint32_t, 256>;

// tables[n][b]: what byte b does to the sum n bytes later.
constexpr std::array<Table, kStep> make_tables() {
  std::array<Table, kStep> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = times_x(sum);
    tables[0][byte] = sum;
  }
  for (std::size_t n = 1; n < kStep; ++n) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[n - 1][byte];
      tables[n][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr std::array<Table, kStep> kTables = make_tables();

std::uint32_t add_by_tables(std::uint32_t sum, const std::byte* at, std::size_t left) {
  for (; left >= kStep; left -= kStep, at += kStep) {
    std::array<std::uint8_t, kStep> block;
    std::memcpy(block.data(), at, kStep);
    for (std::size_t i = 0; i < 4; ++i) {
      block[i] = static_cast<std::uint8_t>(block[i] ^ (sum >> (8 * i)));
    }
    sum = 0;
    for (std::size_t i = 0; i < kStep; ++i) sum ^= kTables[kStep - 1 - i][block[i]];
  }
  for (; left > 0; --left, ++at) {
    sum = (sum >> 8) ^ kTables[0][(sum ^ std::to_integer<std::uint32_t>(*at)) & 255];
  }
  return sum;
}

// ---------------------------------------------------------------- by carry-less products

#if defined(__x86_64__)
#define SAM_RLX_CLMUL __attribute__((target("pclmul")))

constexpr std::size_t kVector = 16, kVectors = 4;  // bytes of a vector; how many are summed apart

// x to the n, in the upper half of a word.
constexpr std::int64_t power_of_x(int n) {
  std::uint32_t sum = 0x80000000;
  for (; n > 0; --n) sum = times_x(sum);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) << 32);
}

// What moves a vector so many bytes on: factors of its first word and of its second one, which
// stands 64 powers lower. Products of two words come out times x, so the factors lack one.
template <std::size_t bytes>
SAM_RLX_CLMUL __m128i factors() {
  constexpr int kPowers = 8 * static_cast<int>(bytes);
  constexpr std::int64_t kWord0 = power_of_x(kPowers + 64 - 1), kWord1 = power_of_x(kPowers - 1);
  return _mm_set_epi64x(kWord1, kWord0);
}

SAM_RLX_CLMUL __m128i load(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

// The sum moved on to `next`, and `next`.
SAM_RLX_CLMUL __m128i fold(__m128i sum, __m128i by, __m128i next) {
  const __m128i words[2] = {_mm_clmulepi64_si128(sum, by, 0x00),
                            _mm_clmulepi64_si128(sum, by, 0x11)};
  return _mm_xor_si128(next, _mm_xor_si128(words[0], words[1]));
}

// Bytes become 16 with the same remainder, for the tables. Source: Gopal and others, "Fast CRC
// computation for generic polynomials using PCLMULQDQ instruction", Intel, 2009.
SAM_RLX_CLMUL std::uint32_t add_by_products(std::uint32_t sum, const std::byte* at,
                                            std::size_t left) {
  constexpr std::size_t kStride = kVectors * kVector;
  if (left < kStride) return add_by_tables(sum, at, left);
  __m128i sums[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) sums[i] = load(at + i * kVector);
  sums[0] = _mm_xor_si128(sums[0], _mm_cvtsi32_si128(static_cast<int>(sum)));
  const __m128i stride = factors<kStride>(), vector = factors<kVector>();
  for (at += kStride, left -= kStride; left >= kStride; at += kStride, left -= kStride) {
    for (std::size_t i = 0; i < kVectors; ++i) {
      sums[i] = fold(sums[i], stride, load(at + i * kVector));
    }
  }
  __m128i all = sums[0];
  for (std::size_t i = 1; i < kVectors; ++i) all = fold(all, vector, sums[i]);
  for (; left >= kVector; at += kVector, left -= kVector) all = fold(all, vector, load(at));
  std::array<std::byte, kVector> bytes;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes.data()), all);
  return add_by_tables(add_by_tables(0, bytes.data(), kVector), at, left);
}
#undef SAM_RLX_CLMUL
#endif

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> bytes) noexcept {
#if defined(__x86_64__)
  if (cpu_features().clmul) return ~add_by_products(kFirst, bytes.data(), bytes.size());
#endif
  return crc32_by_tables(bytes);
}

std::uint32_t crc32_by_tables(std::span<const std::byte> bytes) noexcept {
  return ~add_by_tables(kFirst, bytes.data(), bytes.size());
}

}  // namespace sam_rlx
