#include "layers/multihead_attention.h"

#include <cmath>

namespace sam_rlx {

void MultiheadAttention::visit(ParamVisitor& v) {
  v("in_proj_weight", in_proj_weight, {3 * embed_dim, embed_dim});
  v("in_proj_bias", in_proj_bias, {3 * embed_dim});
  v("out_proj", out_proj);
}

void MultiheadAttention::pack(const KernelTable& kernels) {
  const ConstView parts = in_proj_weight.view().reshape({3, embed_dim, embed_dim});
  q_proj = pack_matrix(kernels, parts[0], weight_format);
  k_proj = pack_matrix(kernels, parts[1], weight_format);
  v_proj = pack_matrix(kernels, parts[2], weight_format);
  in_proj_weight = Tensor();
}

void MultiheadAttention::forward_add_(Context& ctx, const Inputs& in, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View q = ctx.workspace.floats(in.query.shape);
  const View k = ctx.workspace.floats(in.key.shape);
  const View v = ctx.workspace.floats(in.value.shape);
  linear(ctx, in.query, q_proj, {.bias = bias_of(0)}, q);
  linear(ctx, in.key, k_proj, {.bias = bias_of(1)}, k);
  linear(ctx, in.value, v_proj, {.bias = bias_of(2)}, v);
  AttentionArgs args;
  args.num_heads = num_heads;
  args.head_dim = args.value_dim = embed_dim / num_heads;
  args.scale = 1.0F / std::sqrt(static_cast<float>(args.head_dim));
  args.query = {q.data, embed_dim};
  args.key = {k.data, embed_dim};
  args.value = {v.data, embed_dim};
  args.num_queries = in.query.shape[0];
  args.num_keys = in.key.shape[0];
  args.bias = in.bias;
  args.products = products_beside(ctx, weight_format);
  const View merged = ctx.workspace.floats({1, args.num_queries, embed_dim});
  attention(ctx, args, merged);
  out_proj.forward_add(ctx, merged.reshape(x.shape), x, x);
}

// ---------------------------------------------------------------- TokenMapAttention

void TokenMapAttention::pack(const KernelTable& kernels) {
  const std::int64_t channels = attention.embed_dim;
  weight = Tensor::copy_of(attention.in_proj_weight.view().reshape({3, channels, channels}));
  attention.pack(kernels);
}

Projection TokenMapAttention::projection(std::int64_t part, const PackedMatrix& packed) const {
  return {.weight = weight.view()[part],
          .bias = {attention.bias_of(part), Shape{attention.embed_dim}},
          .packed = &packed};
}

void TokenMapAttention::attend_to_map_add_(Context& ctx, ConstView query, ConstView map,
                                           ConstView pos, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View q = ctx.workspace.floats(query.shape);
  linear(ctx, query, attention.q_proj, {.bias = attention.bias_of(0)}, q);
  const View merged = ctx.workspace.floats(query.shape);
  token_to_map_attention(ctx,
                         {.num_heads = attention.num_heads,
                          .query = q,
                          .keys = map,
                          .key_pe = pos,
                          .k_proj = projection(1, attention.k_proj),
                          .v_proj = projection(2, attention.v_proj)},
                         merged);
  attention.out_proj.forward_add(ctx, merged, x, x);
}

void TokenMapAttention::attend_to_tokens_add_(Context& ctx, ConstView query, ConstView tokens,
                                              View x) const {
  // Folded, a position costs 2 * tokens * heads * C multiply-adds; projected, about 2 * C * C.
  if (tokens.shape[0] * attention.num_heads > attention.embed_dim) {
    attention.forward_add_(ctx, {.query = query, .key = tokens, .value = tokens}, x);
    return;
  }
  const Workspace::Scope scratch(ctx.workspace);
  const View k = ctx.workspace.floats(tokens.shape);
  const View v = ctx.workspace.floats(tokens.shape);
  linear(ctx, tokens, attention.k_proj, {.bias = attention.bias_of(1)}, k);
  linear(ctx, tokens, attention.v_proj, {.bias = attention.bias_of(2)}, v);
  const Linear& out_proj = attention.out_proj;
  map_to_token_attention_norm(
      ctx,
      {.num_heads = attention.num_heads,
       .key = k,
       .value = v,
       .query_input = query,
       .query_pe = {},
       .q_proj = projection(0, attention.q_proj),
       .out_proj = {.weight = {}, .bias = out_proj.bias, .packed = &out_proj.packed},
       .keys = x},
      x);
}

}  // namespace sam_rlx
