#pragma once

#include <string>

#include "layers/layer.h"
#include "layers/linear.h"
#include "ops/attention.h"
#include "ops/map_attention.h"
#include "ops/token_attention.h"

namespace sam_rlx {

// Attention whose queries, keys and values are projected from one width, for one batch entry. A key
// that is masked in upstream's batches is a key that is not given here.
// Upstream: torch.nn.MultiheadAttention.
struct MultiheadAttention {
  std::int64_t embed_dim = 0, num_heads = 0;
  WeightFormat weight_format = WeightFormat::kFloat32;  // of queries, keys and values

  Tensor in_proj_weight;  // (3C, C): queries, keys, values; until it is packed
  Tensor in_proj_bias;    // (3C,)
  Linear out_proj;
  PackedMatrix q_proj, k_proj, v_proj;
  std::string path;

  MultiheadAttention() = default;
  MultiheadAttention(std::int64_t dim, std::int64_t heads)
      : embed_dim(dim), num_heads(heads), out_proj(dim, dim) {}

  void visit(ParamVisitor& v);
  void pack(const KernelTable& kernels);

  struct Inputs {
    ConstView query;       // (N, C)
    ConstView key, value;  // (M, C), M > 0
    MapBias bias = {};
  };
  // x (N, C) gets the attention added; x may be one of the inputs.
  void forward_add_(Context& ctx, const Inputs& in, View x) const;

  const float* bias_of(std::int64_t part) const { return in_proj_bias.data() + part * embed_dim; }
};

// The same between few tokens and a map, on whichever side: products with the tokens are made with
// the weights themselves.
struct TokenMapAttention {
  MultiheadAttention attention;
  Tensor weight;  // (3, C, C): in_proj_weight
  std::string path;

  TokenMapAttention() = default;
  TokenMapAttention(std::int64_t dim, std::int64_t heads) : attention(dim, heads) {}

  void visit(ParamVisitor& v) { attention.visit(v); }
  void pack(const KernelTable& kernels);

  // For few tokens (N, C) and a map (M, C) whose positions get `pos` (M, C) added for the keys: the
  // map is never projected, see ops/token_attention.h.
  void attend_to_map_add_(Context& ctx, ConstView query, ConstView map, ConstView pos,
                          View x) const;
  // For a map (M, C) of queries and few tokens (T, C), which are keys and values: while there are
  // few, it is the tokens that are projected on, not the map.
  void attend_to_tokens_add_(Context& ctx, ConstView query, ConstView tokens, View x) const;

 private:
  Projection projection(std::int64_t part, const PackedMatrix& packed) const;
};

}  // namespace sam_rlx
