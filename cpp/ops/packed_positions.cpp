#include "ops/packed_positions.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"

namespace sam_rlx {

// ---------------------------------------------------------------- blocks

std::int64_t PackedPositions::row_blocks() const {
  return (side + block_positions - 1) / block_positions;
}

std::int64_t PackedPositions::all_token_blocks() const {
  return tokens > 0 ? (tokens + block_tokens - 1) / block_tokens : 0;
}

std::int64_t PackedPositions::block_keys() const {
  return std::max(block_positions * maps, block_tokens);
}

std::int64_t PackedPositions::block_floats(std::int64_t keys) const {
  const std::int64_t channels = round_up(inputs, mr), numbers = keys * key_floats();
  const std::int64_t scales = products == Products::kInt16 ? keys + channels : 0;
  return numbers + channels * floats_of(keys) + scales;
}

KeyBlock PackedPositions::block(float* at, std::int64_t positions, std::int64_t count) const {
  const std::int64_t keys = positions * count;
  KeyBlock result{.positions = positions, .maps = count, .keys = at};
  result.values = at + keys * key_floats();
  if (products == Products::kInt16) {
    result.key_scale = result.values;
    result.values += keys;
    result.value_scale = result.values + round_up(inputs, mr) * floats_of(keys);
  }
  return result;
}

KeyBlock PackedPositions::map_block(std::int64_t y, std::int64_t index) const {
  const std::int64_t size = block_floats(block_positions * maps);
  return block(map_blocks + (y * row_blocks() + index) * size,
               std::min(block_positions, side - index * block_positions), maps);
}

KeyBlock PackedPositions::token_block(std::int64_t index) const {
  return block(token_blocks + index * block_floats(block_tokens), 1,
               std::min(block_tokens, tokens - index * block_tokens));
}

// ---------------------------------------------------------------- packing

namespace {

// What a thread packs with.
class BlockPacker {
 public:
  BlockPacker(const KernelTable& kernels, const PackedPositions& result, Workspace& workspace)
      : kernels_(kernels), result_(result), depth_(result.inputs + 1) {
    const std::int64_t rows = round_up(result.block_keys(), result.mr);
    rows_ = workspace.array<float>(rows * depth_);
    panels_ = workspace.array<float>(rows * result.key_floats());
    scale_ = workspace.array<float>(rows);
    pointers_ = workspace.array<const float*>(rows);
  }

  // Positions from `first` on.
  void pack_maps(std::span<const PositionMap> maps, std::int64_t first, const KeyBlock& block) {
    for (std::int64_t x = 0; x < block.positions; ++x) {
      const std::int64_t at = (first + x) * result_.inputs;
      for (std::int64_t t = 0; t < block.maps; ++t) {
        const PositionMap& map = maps[static_cast<std::size_t>(t)];
        make_key(t, map.features.data + at, map.pos.data + at, map.tpos.data);
      }
      pack_keys(x, block);
    }
    for (std::int64_t j = 0; j < block.count(); ++j) {
      const PositionMap& map = maps[static_cast<std::size_t>(j % block.maps)];
      pointers_[j] = map.features.data + (first + j / block.maps) * result_.inputs;
    }
    pack_values(block);
  }

  void pack_tokens(ConstView tokens, ConstView pos, std::int64_t first, const KeyBlock& block) {
    const auto row = [&](ConstView of, std::int64_t j) {
      return of ? of.data + (first + j) * result_.inputs : nullptr;
    };
    for (std::int64_t j = 0; j < block.maps; ++j) make_key(j, row(tokens, j), row(pos, j), nullptr);
    pack_keys(0, block);
    for (std::int64_t j = 0; j < block.maps; ++j) pointers_[j] = row(tokens, j);
    pack_values(block);
  }

 private:
  bool int16() const { return result_.products == Products::kInt16; }

  void make_key(std::int64_t row, const float* feature, const float* pos, const float* time) {
    float* const out = rows_ + row * depth_;
    for (std::int64_t k = 0; k < result_.inputs; ++k) {
      out[k] = feature[k] + (pos != nullptr ? pos[k] : 0.0F) + (time != nullptr ? time[k] : 0.0F);
    }
    out[result_.inputs] = 1.0F;
  }

  // The keys of a position: panels of mr rows, put side by side.
  void pack_keys(std::int64_t position, const KeyBlock& block) {
    const std::int64_t mr = result_.mr, numbers = result_.key_floats(), count = block.maps;
    for (std::int64_t i = 0; i < round_up(count, mr); ++i) {
      pointers_[i] = i < count ? rows_ + i * depth_ : nullptr;
    }
    if (int16()) {
      kernels_.pack_int16_left(pointers_, count, depth_, static_cast<float>(int16_limit(depth_)),
                               reinterpret_cast<std::int16_t*>(panels_), scale_);
      std::copy_n(scale_, count, block.key_scale + position * count);
    } else {
      for (std::int64_t i = 0; i < count; i += mr) {
        kernels_.pack_a_rows(pointers_ + i, depth_, panels_ + i * depth_);
      }
    }
    float* const out = block.keys + position * count * numbers;
    for (std::int64_t i = 0; i < count; i += mr) {
      const float* const panel = panels_ + i * numbers;
      const std::int64_t width = std::min(mr, count - i);
      for (std::int64_t k = 0; k < numbers; ++k) {
        std::copy_n(panel + k * mr, width, out + k * count + i);
      }
    }
  }

  void pack_values(const KeyBlock& block) {
    if (int16()) {
      kernels_.pack_int16_left_columns(pointers_, block.count(), result_.inputs, float{kInt16Value},
                                       reinterpret_cast<std::int16_t*>(block.values),
                                       block.value_scale);
    } else {
      kernels_.pack_a_columns(pointers_, block.count(), result_.inputs, block.values,
                              block.count() * result_.mr);
    }
  }

  const KernelTable& kernels_;
  const PackedPositions& result_;
  std::int64_t depth_;
  float *rows_ = nullptr, *panels_ = nullptr, *scale_ = nullptr;
  const float** pointers_ = nullptr;
};

void check_maps(std::span<const PositionMap> maps, const Shape& expected) {
  for (const PositionMap& map : maps) {
    if (map.features.shape != expected || map.pos.numel() != expected.numel()) {
      fail("pack_positions", "maps and encodings " + expected.str(),
           map.features.shape.str() + " and " + map.pos.shape.str());
    }
  }
}

// About equal parts of `count`, each of `most` at most.
std::int64_t equal_part(std::int64_t count, std::int64_t most) {
  const std::int64_t parts = (count + most - 1) / most;
  return parts > 0 ? (count + parts - 1) / parts : 0;
}

}  // namespace

PackedPositions pack_positions(Context& ctx, std::int64_t side, std::span<const PositionMap> maps,
                               ConstView tokens, ConstView token_pos, Products products) {
  PackedPositions result{.side = side, .maps = static_cast<std::int64_t>(maps.size())};
  const ConstView example = maps.empty() ? tokens : maps.front().features;
  result.inputs = example.shape[1];
  result.tokens = tokens ? tokens.shape[0] : 0;
  result.mr = ctx.kernels.gemm_mr;
  result.products = products;
  check_maps(maps, {side * side, result.inputs});
  const bool int16 = products == Products::kInt16;
  if (int16 && result.maps > kInt16Keys) {
    fail("pack_positions", std::to_string(kInt16Keys) + " maps at most",
         std::to_string(result.maps));
  }
  const std::int64_t maps_or_one = std::max<std::int64_t>(result.maps, 1);
  result.block_positions = int16 ? equal_part(side, kInt16Keys / maps_or_one) : side;
  result.block_tokens = int16 ? equal_part(result.tokens, kInt16Keys) : result.tokens;
  const std::int64_t blocks = side * result.row_blocks(), token_blocks = result.all_token_blocks();
  const std::int64_t block_size = result.block_floats(result.block_positions * result.maps);
  result.map_blocks = ctx.workspace.array<float>(blocks * block_size);
  result.token_blocks =
      ctx.workspace.array<float>(token_blocks * result.block_floats(result.block_tokens));
  const Loop loop{ctx.num_threads, blocks + token_blocks, 1, block_size * kNumberWork};
  ctx.workspace.reserve_threads(std::max(1, ctx.num_threads));
  parallel_for(loop, [&](std::int64_t i, std::int64_t, int thread) {
    Workspace& workspace = ctx.workspace.of_thread(thread);
    const Workspace::Scope scratch(workspace);
    BlockPacker packer(ctx.kernels, result, workspace);
    if (i < blocks) {
      const std::int64_t y = i / result.row_blocks(), index = i % result.row_blocks();
      packer.pack_maps(maps, y * side + index * result.block_positions, result.map_block(y, index));
    } else {
      const std::int64_t index = i - blocks;
      packer.pack_tokens(tokens, token_pos, index * result.block_tokens, result.token_block(index));
    }
  });
  return result;
}

}  // namespace sam_rlx
