#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace sam_rlx {

// GGUF's packed number formats: a row is cut into blocks of 32 or 256 numbers that share scales.
enum class BlockFormat {
  kQ4_0,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kMXFP4
};

struct BlockFacts {
  const char* name;      // GGUF's spelling: "Q4_K"
  std::int64_t numbers;  // of a block
  std::int64_t bytes;    // of a block
};
const BlockFacts& block_facts(BlockFormat format) noexcept;

// Writes `count` numbers, whole blocks, as float32: what ggml gives, to the bit. `blocks` may have
// any alignment.
void unpack_blocks(BlockFormat format, const std::byte* blocks, std::int64_t count,
                   float* out) noexcept;

// A matrix in blocks: its rows one behind the other. Empty while there are no bytes.
struct BlockRows {
  BlockFormat format = BlockFormat::kQ8_0;
  std::int64_t rows = 0, cols = 0;
  AlignedBlock bytes;

  explicit operator bool() const { return bytes != nullptr; }
  std::int64_t row_bytes() const;
  const std::byte* row(std::int64_t i) const {
    return static_cast<const std::byte*>(bytes.get()) + i * row_bytes();
  }
};

// Eight scales and eight minima of six bits each, as Q4_K and Q5_K store them in 12 bytes.
void unpack_scales_and_minima(const std::uint8_t* packed, std::uint8_t* scales,
                              std::uint8_t* minima) noexcept;
// Sixteen scales of six bits, -32 to 31, as Q3_K stores them in 12 bytes.
void unpack_signed_scales(const std::uint8_t* packed, std::int8_t* scales) noexcept;

}  // namespace sam_rlx
