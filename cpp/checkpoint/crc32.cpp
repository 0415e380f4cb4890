#include "checkpoint/crc32.h"

#include <array>
#include <cstring>

namespace sam_rlx {
namespace {

constexpr std::size_t kStep = 16;  // bytes that are looked up together

using Table = std::array<std::uint32_t, 256>;

// tables[n][b]: what byte b does to the sum n bytes later.
constexpr std::array<Table, kStep> make_tables() {
  constexpr std::uint32_t kPolynomial = 0xEDB88320;
  std::array<Table, kStep> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kPolynomial : 0);
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

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> bytes) noexcept {
  std::uint32_t sum = 0xFFFFFFFF;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
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
  return ~sum;
}

}  // namespace sam_rlx
