#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sam_rlx {

// The checksum of zip archives. Zlib's polynomial.
std::uint32_t crc32_of(std::span<const std::byte> bytes) noexcept;
// The same as on processors without carry-less products. For tests.
std::uint32_t crc32_by_tables(std::span<const std::byte> bytes) noexcept;

}  // namespace sam_rlx
