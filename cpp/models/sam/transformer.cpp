#include "models/sam/transformer.h"

#include <algorithm>
#include <cmath>

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/map_attention.h"
#include "ops/token_attention.h"

namespace sam_rlx::sam {
namespace {

Projection projection(const Linear& linear, ConstView weight = {}) {
  return {weight, linear.bias, &linear.packed};
}

// The first token, and those behind the `skipped` ones that follow it, as many as `out` holds.
void read_tokens(ConstView tokens, std::int64_t skipped, View out) {
  const std::int64_t channels = out.shape[1];
  std::copy_n(tokens.data, channels, out.data);
  std::copy_n(tokens.data + (1 + skipped) * channels, out.numel() - channels, out.data + channels);
}

}  // namespace

// ---------------------------------------------------------------- TwoWayAttention

TwoWayAttention::TwoWayAttention(std::int64_t embedding_dim, std::int64_t heads,
                                 std::int64_t downsample_rate)
    : num_heads(heads),
      q_proj(embedding_dim, embedding_dim / downsample_rate),
      k_proj(embedding_dim, embedding_dim / downsample_rate),
      v_proj(embedding_dim, embedding_dim / downsample_rate),
      out_proj(embedding_dim / downsample_rate, embedding_dim) {}

void TwoWayAttention::visit(ParamVisitor& v) {
  v("q_proj", q_proj);
  v("k_proj", k_proj);
  v("v_proj", v_proj);
  v("out_proj", out_proj);
}

void TwoWayAttention::fold() {
  q_weight = q_proj.weight.clone();
  k_weight = k_proj.weight.clone();
}

View TwoWayAttention::self_forward(Context& ctx, ConstView q, ConstView k, ConstView v) const {
  const View out = ctx.workspace.floats(q.shape);
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t inner = q_proj.out_features;
  const View query = q_proj.forward(ctx, q);
  const View key = k_proj.forward(ctx, k);
  const View value = v_proj.forward(ctx, v);
  const View attended = ctx.workspace.floats({1, q.shape[0], inner});
  attention(ctx,
            {.num_heads = num_heads,
             .head_dim = inner / num_heads,
             .value_dim = inner / num_heads,
             .scale = 1.0F / std::sqrt(static_cast<float>(inner / num_heads)),
             .query = {query.data, inner},
             .key = {key.data, inner},
             .value = {value.data, inner},
             .num_queries = q.shape[0],
             .num_keys = k.shape[0]},
            attended);
  linear(ctx, attended.reshape({q.shape[0], inner}), out_proj.packed,
         {.bias = out_proj.bias.data()}, out);
  return out;
}

View TwoWayAttention::token_to_map(Context& ctx, ConstView q, ConstView map, ConstView key_pe,
                                   const ProjectedMap* projected) const {
  const View out = ctx.workspace.floats(q.shape);
  const Workspace::Scope scratch(ctx.workspace);
  const View query = q_proj.forward(ctx, q);
  const View attended = ctx.workspace.floats(query.shape);
  if (projected != nullptr) {
    token_to_projected_map_attention(ctx, {num_heads, query, projected->key_t, projected->value},
                                     attended);
  } else {
    token_to_map_attention(
        ctx, {num_heads, query, map, key_pe, projection(k_proj, k_weight), projection(v_proj)},
        attended);
  }
  linear(ctx, attended, out_proj.packed, {.bias = out_proj.bias.data()}, out);
  return out;
}

void TwoWayAttention::map_to_token(Context& ctx, const MapInputs& in, const LayerNorm& norm,
                                   View map_out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View key = k_proj.forward(ctx, in.k);
  const View value = v_proj.forward(ctx, in.v);
  MapToTokenArgs args{.num_heads = num_heads,
                      .key = key,
                      .value = value,
                      .query_input = in.map,
                      .query_pe = in.key_pe,
                      .q_proj = projection(q_proj, q_weight),
                      .out_proj = projection(out_proj),
                      .norm_weight = norm.weight,
                      .norm_bias = norm.bias,
                      .norm_eps = norm.eps,
                      .keys = in.map};
  if (in.projected != nullptr) {
    args.query_input = args.query_pe = {};
    args.query_t = in.projected->query_t;
  }
  map_to_token_attention_norm(ctx, args, map_out);
}

// ---------------------------------------------------------------- TwoWayAttentionBlock

TwoWayAttentionBlock::TwoWayAttentionBlock(const TwoWayTransformerConfig& config, bool first)
    : skip_first_layer_pe(first),
      self_attn(config.embedding_dim, config.num_heads, 1),
      cross_attn_token_to_image(config.embedding_dim, config.num_heads,
                                config.attention_downsample_rate),
      cross_attn_image_to_token(config.embedding_dim, config.num_heads,
                                config.attention_downsample_rate),
      norm1(config.embedding_dim, static_cast<float>(config.layer_norm_eps)),
      norm2(config.embedding_dim, static_cast<float>(config.layer_norm_eps)),
      norm3(config.embedding_dim, static_cast<float>(config.layer_norm_eps)),
      norm4(config.embedding_dim, static_cast<float>(config.layer_norm_eps)),
      mlp(config.embedding_dim, config.mlp_dim, Activation::kRelu) {
  mlp.numbered = config.numbered_mlp;
}

void TwoWayAttentionBlock::visit(ParamVisitor& v) {
  v("self_attn", self_attn);
  v("norm1", norm1);
  v("cross_attn_token_to_image", cross_attn_token_to_image);
  v("norm2", norm2);
  v("mlp", mlp);
  v("norm3", norm3);
  v("norm4", norm4);
  v("cross_attn_image_to_token", cross_attn_image_to_token);
}

void TwoWayAttentionBlock::project_map(Context& ctx, ConstView keys, ConstView key_pe,
                                       ProjectedMap& out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const Linear& k_proj = cross_attn_token_to_image.k_proj;
  const Linear& v_proj = cross_attn_token_to_image.v_proj;
  const Linear& q_proj = cross_attn_image_to_token.q_proj;
  const std::int64_t positions = keys.shape[0];
  const std::int64_t inner = k_proj.out_features;
  if (out.value.empty()) out.value = Tensor({positions, inner});
  const View k = add(ctx, keys, key_pe);
  pack_positions_t(ctx, k_proj.forward(ctx, k), out.key_t);
  pack_positions_t(ctx, q_proj.forward(ctx, k), out.query_t);
  linear(ctx, keys, v_proj.packed, {.bias = v_proj.bias.data()}, out.value);
}

void TwoWayAttentionBlock::forward_(Context& ctx, View queries, const Inputs& in,
                                    View keys_out) const {
  const Workspace::Scope scratch(ctx.workspace);

  // Tokens attend to themselves. In the first layer they are their own encoding: the result
  // replaces them instead of being added.
  if (skip_first_layer_pe) {
    copy_(ctx, queries, self_attn.self_forward(ctx, queries, queries, queries));
  } else {
    const View q = add(ctx, queries, in.query_pe);
    add_(ctx, queries, self_attn.self_forward(ctx, q, q, queries));
  }
  norm1.forward_(ctx, queries);

  // Tokens attend to the image.
  View q = add(ctx, queries, in.query_pe);
  add_(ctx, queries,
       cross_attn_token_to_image.token_to_map(ctx, q, in.keys, in.key_pe, in.projected));
  norm2.forward_(ctx, queries);

  mlp.forward_add_(ctx, queries, queries);
  norm3.forward_(ctx, queries);

  // The image attends to the tokens; norm4 is applied on the way out.
  q = add(ctx, queries, in.query_pe);
  cross_attn_image_to_token.map_to_token(ctx, {in.keys, in.key_pe, in.projected, q, queries}, norm4,
                                         keys_out);
  ctx.record(path + ".queries", queries);
  ctx.record(path + ".keys", keys_out);
}

// ---------------------------------------------------------------- TwoWayTransformer

TwoWayTransformer::TwoWayTransformer(const TwoWayTransformerConfig& config)
    : final_attn_token_to_image(config.embedding_dim, config.num_heads,
                                config.attention_downsample_rate),
      norm_final_attn(config.embedding_dim, 1e-5F) {
  for (std::int64_t i = 0; i < config.depth; ++i) layers.emplace_back(config, i == 0);
}

void TwoWayTransformer::visit(ParamVisitor& v) {
  v("layers", layers);
  v("final_attn_token_to_image", final_attn_token_to_image);
  v("norm_final_attn", norm_final_attn);
}

void TwoWayTransformer::project_map(Context& ctx, ConstView map, ConstView image_pe,
                                    ProjectedMap& out) const {
  const Shape tokens{map.numel() / map.shape.last(), map.shape.last()};
  layers.front().project_map(ctx, map.reshape(tokens), image_pe.reshape(tokens), out);
}

void TwoWayTransformer::forward_(Context& ctx, const Inputs& in, View queries, View keys) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View tokens = ctx.workspace.floats(in.point_embedding.shape);
  copy_(ctx, tokens, in.point_embedding);
  ConstView map = in.image_embedding;
  const ProjectedMap* projected = in.projected;
  for (const TwoWayAttentionBlock& layer : layers) {
    layer.forward_(ctx, tokens, {in.point_embedding, map, in.image_pe, projected}, keys);
    map = keys;
    projected = nullptr;
  }
  // Nothing mixes the tokens any more: the others are done.
  read_tokens(tokens, in.skipped, queries);
  const View encoding = ctx.workspace.floats(queries.shape);
  read_tokens(in.point_embedding, in.skipped, encoding);
  const View q = add(ctx, queries, encoding);
  add_(ctx, queries, final_attn_token_to_image.token_to_map(ctx, q, map, in.image_pe, nullptr));
  norm_final_attn.forward_(ctx, queries);
  ctx.record(path + ".queries", queries);
  ctx.record(path + ".keys", keys);
}

}  // namespace sam_rlx::sam
