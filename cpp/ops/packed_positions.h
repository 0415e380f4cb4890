#pragma once

#include <span>

#include "core/context.h"
#include "ops/attention.h"

namespace sam_rlx {

// A map on a square grid: keys come from features + pos + tpos, values are the features.
struct PositionMap {
  ConstView features, pos;  // (side * side, K)
  ConstView tpos;           // (K,) or none
};

// Keys on some positions of a row of maps, with the values that belong to them. Tokens are keys on
// one position. The last number of a key is 1. Scales belong to integers of 16 bits.
struct KeyBlock {
  std::int64_t positions = 0, maps = 0;
  float* keys = nullptr;  // (positions, K + 1, maps), or words of two: (positions, words, maps)
  float* key_scale = nullptr;    // (positions, maps)
  float* values = nullptr;       // left operand (K, positions * maps)
  float* value_scale = nullptr;  // (K,)

  std::int64_t count() const { return positions * maps; }
};

// Maps, and tokens whose keys are not turned, in the order in which they are read. Made once for
// all layers that attend to them.
struct PackedPositions {
  std::int64_t side = 0, maps = 0, tokens = 0, inputs = 0;  // inputs: K
  Products products = Products::kFloat32;                   // or integers of 16 bits
  std::int64_t mr = 0;                                      // gemm_mr of the kernels
  // Keys are read in blocks: of positions of one row, or tokens. The last one may have fewer.
  std::int64_t block_positions = 0, block_tokens = 0;
  float *map_blocks = nullptr, *token_blocks = nullptr;

  // K + 1 numbers of a key, or their words, take so many floats.
  std::int64_t key_floats() const { return floats_of(inputs + 1); }
  std::int64_t row_blocks() const;
  std::int64_t all_token_blocks() const;
  std::int64_t block_keys() const;  // of the largest block
  KeyBlock map_block(std::int64_t y, std::int64_t index) const;
  KeyBlock token_block(std::int64_t index) const;
  std::int64_t block_floats(std::int64_t keys) const;  // that a block of so many keys takes

 private:
  std::int64_t floats_of(std::int64_t numbers) const {
    return products == Products::kInt16 ? (numbers + 1) / 2 : numbers;
  }
  KeyBlock block(float* at, std::int64_t positions, std::int64_t count) const;
};

// What attention to positions multiplies beside layers of this format, without tile registers.
inline Products position_products_beside(const KernelTable& kernels, WeightFormat format) {
  const bool exact = products_beside(kernels, format) == Products::kFloat32;
  return exact ? Products::kFloat32 : kernels.position_products;
}

// token_pos may be none. Integers are packed of kInt16Keys maps at most. The result lives in the
// enclosing scope of the workspace.
PackedPositions pack_positions(Context& ctx, std::int64_t side, std::span<const PositionMap> maps,
                               ConstView tokens, ConstView token_pos,
                               Products products);

}  // namespace sam_rlx
