#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "layers/linear.h"
#include "layers/norm.h"
#include "layers/rope.h"
#include "models/sam2/config.h"
#include "ops/position_attention.h"

namespace sam_rlx::sam2 {

// Positions that are attended to: those of a map, or a run of tokens without a position.
struct KeyPart {
  ConstView key_input;  // (M, kv): what keys are projected from
  ConstView value;      // (M, kv)
  bool rotated = true;  // keys turn with their position: M is a multiple of their grid's positions
};

// What is attended to: parts, or many maps packed together.
struct Keys {
  std::span<const KeyPart> parts = {};
  const PackedPositions* positions = nullptr;  // null: the parts
};

// Attention with one head and rotary encoding of queries and keys. Values are averaged before they
// are projected,
//   W_out (sum p (W_v x + b_v)) + b_out = (W_out W_v) (sum p x) + (W_out b_v + b_out),
// since sum p = 1: memory is narrower than its projection, and v_proj absorbs out_proj.
// Upstream: sam2/modeling/sam/transformer.py, RoPEAttention, and EdgeTAM's RoPEAttentionv2, whose
// keys have a grid of their own.
struct RoPEAttention {
  std::int64_t dim = 0, kv_in_dim = 0;
  WeightFormat weight_format = WeightFormat::kFloat32;
  Linear q_proj, k_proj, v_proj, out_proj;
  AxialRope rope, key_rope;                // of the queries' grid, and of the keys'
  PositionProjection position_projection;  // of the keys, where memory is narrower than queries
  std::string path;

  RoPEAttention() = default;
  RoPEAttention(const MemoryAttentionConfig& config, std::int64_t kv_dim, std::int64_t key_side);
  void visit(ParamVisitor& v);
  void fold();
  void pack(const KernelTable& kernels);
  // x (N, C) gets the attention of `query` (N, C) to the keys added.
  void forward_add_(Context& ctx, ConstView query, const Keys& keys, View x) const;

 private:
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(dim)); }
  void attend_to_parts(Context& ctx, ConstView q, std::span<const KeyPart> parts, View out) const;
};

// Upstream: sam2/modeling/memory_attention.py, MemoryAttentionLayer.
struct MemoryAttentionLayer {
  RoPEAttention self_attn, cross_attn_image;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  std::string path;

  MemoryAttentionLayer() = default;
  explicit MemoryAttentionLayer(const MemoryAttentionConfig& config);
  void visit(ParamVisitor& v);
  // x (N, C), in place.
  void self_attention_(Context& ctx, View x) const;
  void cross_attention_(Context& ctx, View x, const Keys& memory) const;
  void feed_forward_(Context& ctx, View x) const;
};

// A map of the memory bank, read where it lies.
struct MemoryMap {
  // maskmem_features: (g * g, kv) or (g, g, kv), g config.key_side(). Tokens without a position may
  // stand before the map: (n + g * g, kv).
  ConstView features;
  ConstView pos;        // as features: encoding of the positions
  ConstView tpos = {};  // (kv,): encoding of the time, or none
};

// What a frame attends to. Its cost grows with what is there.
struct Memory {
  std::span<const MemoryMap> maps;
  ConstView pointers = {};     // (P, kv): tokens of object pointers, or none
  ConstView pointer_pos = {};  // (P, kv), or none for zeros
};

// Upstream: sam2/modeling/memory_attention.py, MemoryAttention, for one object.
struct MemoryAttention {
  MemoryAttentionConfig config;

  std::vector<MemoryAttentionLayer> layers;
  LayerNorm norm;
  std::string path;

  MemoryAttention() = default;
  explicit MemoryAttention(const MemoryAttentionConfig& sizes);
  void visit(ParamVisitor& v);

  // What does not depend on the object: curr, curr_pos (N, C) -> (N, C), the input and the self-
  // attention of the first layer. Objects of a frame share it.
  View begin(Context& ctx, ConstView curr, ConstView curr_pos) const;
  // begin's result, and the memory of an object -> (N, C).
  View finish(Context& ctx, ConstView shared, const Memory& memory) const;

 private:
  // Tokens that have no position, and what is added to them for keys, or none.
  struct Tokens {
    ConstView values = {}, pos = {};
  };
  Tokens tokens_of(Context& ctx, const Memory& memory) const;
  // Of those in a map that has some before its positions.
  std::int64_t tokens_before(const MemoryMap& map) const;
  Keys prepare_keys(Context& ctx, const Memory& memory, PackedPositions& positions) const;
};

}  // namespace sam_rlx::sam2
