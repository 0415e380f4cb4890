#pragma once

#include <cstdint>
#include <span>

#include "core/context.h"
#include "kernels/kernel_table.h"
#include "ops/weight_format.h"

namespace sam_rlx {

// The products of attention beside layers of this format: those that the processor multiplies
// fastest, and float32 beside float32.
inline Products products_beside(const KernelTable& kernels, WeightFormat format) {
  const bool fewer_bits = format == WeightFormat::kBFloat16 || format == WeightFormat::kInt8;
  return fewer_bits ? kernels.reduced_products : Products::kFloat32;
}
inline Products products_beside(const Context& ctx, WeightFormat format) {
  return products_beside(ctx.kernels, format);
}

// Rows of queries, keys or values. Head h of row i starts at data + i * row_stride + h * head_dim:
// so the q, k and v parts of a fused (N, 3C) matrix are three of these with row stride 3C.
struct AttentionRows {
  const float* data = nullptr;
  std::int64_t row_stride = 0;
};

// A sum of two terms that is added to the scores of keys on a map: key (y, x) of head t gets
//   h[t, i - first, y] + w[t, i - first, x]
// from query i, and nothing from the queries before `first`. Never made for pairs of queries and
// keys.
struct MapBias {
  ConstView h;             // (batch * heads, queries - first, H), or none
  ConstView w;             // (batch * heads, queries - first, W)
  std::int64_t first = 0;  // queries of each batch entry that have no bias
};

// softmax(q k^T * scale + bias) v for each head. Never builds the full score matrix.
struct AttentionArgs {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;   // of queries and keys
  std::int64_t value_dim = 0;  // of values and of the result
  float scale = 1.0F;
  AttentionRows query, key, value;
  std::int64_t num_queries = 0;  // per batch entry
  std::int64_t num_keys = 0;
  std::int64_t batch = 1;  // batch entry b starts at row b * num_queries / b * num_keys
  MapBias bias = {};       // keys are then the positions of a map, row by row
  Products products = Products::kFloat32;
};

// out (batch, num_queries, num_heads * value_dim).
void attention(Context& ctx, const AttentionArgs& args, View out);

// Makes keys where they are packed: some rows of a part at a time, so that they are never stored as
// a whole.
class KeyMaker {
 public:
  // Keys [first, first + count) of a part -> out (count, head_dim), on one thread.
  virtual void make(Context& ctx, std::size_t part, std::int64_t first, View out) const = 0;

 protected:
  ~KeyMaker() = default;
};

// Keys and values that lie in several parts of memory, one part after the other; one head.
struct AttentionPart {
  AttentionRows value;
  std::int64_t count = 0;
};
struct PartAttentionArgs {
  std::int64_t head_dim = 0, value_dim = 0;
  float scale = 1.0F;
  AttentionRows query;
  std::int64_t num_queries = 0;
  std::span<const AttentionPart> parts;  // one of zero keys changes nothing
  const KeyMaker& keys;
  Products products = Products::kFloat32;
};

// out (num_queries, value_dim).
void attention_to_parts(Context& ctx, const PartAttentionArgs& args, View out);

// A map (H, W) cut into windows of `size` x `size`, padded at the bottom and the right as upstream
// does. Padded positions are keys with the vectors pad_key and pad_value, never queries.
struct WindowGrid {
  std::int64_t height = 0, width = 0;
  std::int64_t size = 0;  // 0: one window that is the whole map (global attention)
};

// Decomposed relative position (Li et al., MViTv2; upstream add_decomposed_rel_pos): the score of
// query (i_h, i_w) and key (j_h, j_w) gets q . rel_h[i_h - j_h + k_h - 1] + q . rel_w[...], with
// the unscaled query. Tables (2 k - 1, head_dim), k the side of the window, or null for none.
struct RelPos {
  const float* rel_h = nullptr;
  const float* rel_w = nullptr;
};

// Terms for distances (Graham et al., LeViT; upstream TinyViT's attention_biases): the score of
// query (i_h, i_w) and key (j_h, j_w) of a window gets table[head, |i_h - j_h|, |i_w - j_w|]. They
// are packed for the windows of a grid, whole ones and those that its right and bottom end cut;
// parts of the map with such windows may be given to window_attention.
struct DistanceTerms {
  std::int64_t num_heads = 0, height = 0, width = 0;  // of the table
  // (heads, panels of queries, keys, queries of a panel) for windows whose queries are whole, and
  // cut at the right, at the bottom, or at both.
  const float* packed[4] = {};
  std::int64_t cut_height = 0, cut_width = 0;
};
// table (heads, h, w), h and w the sides of a window. The terms are in the workspace.
DistanceTerms pack_distances(Context& ctx, ConstView table, const WindowGrid& grid);

// Self-attention of ViT blocks over a map: qkv (B, H, W, 3C) fused, heads inside each third ->
// out (B, H, W, C). `pad_qkv` (3C,) holds what the padded positions project to (the bias of qkv),
// or null when the windows divide the map.
struct WindowAttentionArgs {
  ConstView qkv;
  WindowGrid grid;
  std::int64_t num_heads = 0;
  float scale = 1.0F;
  RelPos rel_pos;
  const float* pad_qkv = nullptr;
  // A term for each head and distance of two positions of a window, or none. Not with rel_pos, nor
  // with queries of another map.
  const DistanceTerms* distances = nullptr;
  // Where each padded position projects to something of its own: floats from one position of a
  // window to the next in pad_qkv. 0: all are one.
  std::int64_t pad_stride = 0;
  // Queries of a map that is coarser by a whole number s: (B, H / s, W / s, C), in windows of
  // size / s. Null: those in qkv. H, W and size are multiples of s, so that no query mixes
  // positions inside of the map with padded ones; relative positions are not defined. The result
  // has the queries' shape. Upstream: sam2/modeling/backbones/hieradet.py, the pooled q.
  ConstView query = {};
  Products products = Products::kFloat32;
};
void window_attention(Context& ctx, const WindowAttentionArgs& args, View out);

}  // namespace sam_rlx
