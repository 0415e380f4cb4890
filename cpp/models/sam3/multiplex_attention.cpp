#include "models/sam3/multiplex_attention.h"

#include <cmath>

#include "layers/mlp.h"
#include "ops/attention.h"
#include "ops/elementwise.h"

namespace sam_rlx::sam3 {

// ---------------------------------------------------------------- MultiplexAttentionLayer

MultiplexAttentionLayer::MultiplexAttentionLayer(const MultiplexAttentionConfig& config,
                                                 std::int64_t d_model)
    : dim(d_model),
      num_heads(config.num_heads),
      self_attn_q_proj(dim, dim),
      self_attn_k_proj(dim, dim),
      self_attn_v_proj(dim, dim),
      self_attn_out_proj(dim, dim),
      cross_attn_q_proj(dim, dim),
      cross_attn_k_proj(dim, dim),
      cross_attn_v_proj(dim, dim),
      cross_attn_out_proj(dim, dim),
      image_cross_attn_q_proj(dim, dim),
      image_cross_attn_k_proj(dim, dim),
      linear1(dim, config.dim_feedforward),
      linear2(config.dim_feedforward, dim),
      norm1(dim, 1e-5F),
      norm2(dim, 1e-5F),
      norm3(dim, 1e-5F),
      rope(config.feat_size, dim / config.num_heads, config.rope_theta) {}

void MultiplexAttentionLayer::visit(ParamVisitor& v) {
  v("self_attn_q_proj", self_attn_q_proj);
  v("self_attn_k_proj", self_attn_k_proj);
  v("self_attn_v_proj", self_attn_v_proj);
  v("self_attn_out_proj", self_attn_out_proj);
  v("cross_attn_q_proj", cross_attn_q_proj);
  v("cross_attn_k_proj", cross_attn_k_proj);
  v("cross_attn_v_proj", cross_attn_v_proj);
  v("cross_attn_out_proj", cross_attn_out_proj);
  v("image_cross_attn_q_proj", image_cross_attn_q_proj);
  v("image_cross_attn_k_proj", image_cross_attn_k_proj);
  v("linear1", linear1);
  v("linear2", linear2);
  v("norm1", norm1);
  v("norm2", norm2);
  v("norm3", norm3);
}

void MultiplexAttentionLayer::fold() {
  rope.build();
  for (Linear* const linear :
       {&self_attn_q_proj, &self_attn_k_proj, &cross_attn_q_proj, &cross_attn_k_proj,
        &image_cross_attn_q_proj, &image_cross_attn_k_proj}) {
    linear->reorder_rows(rope.row_order(dim, dim));
  }
}

// Rows (n * side * side, C) of maps.
void MultiplexAttentionLayer::rotate_(Context& ctx, View rows) const {
  const std::int64_t side = rope.side;
  rotate_heads_(ctx, rope.angles(), num_heads,
                rows.reshape({rows.shape[0] / (side * side), side, side, dim}));
}

void MultiplexAttentionLayer::attend_add_(Context& ctx, const Projected& in, const Linear& out_proj,
                                          View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t queries = in.query.shape[0];
  const View attended = ctx.workspace.floats({1, queries, dim});
  attention(ctx,
            {.num_heads = num_heads,
             .head_dim = rope.dim,
             .value_dim = rope.dim,
             .scale = 1.0F / std::sqrt(static_cast<float>(rope.dim)),
             .query = {in.query.data, dim},
             .key = {in.key.data, dim},
             .value = {in.value.data, dim},
             .num_queries = queries,
             .num_keys = in.key.shape[0],
             .products = products_beside(ctx, out_proj.packed.format)},
            attended);
  out_proj.forward_add(ctx, attended[0], x, x);
}

void MultiplexAttentionLayer::self_attention_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View y = norm1.forward(ctx, x);
  const View q = self_attn_q_proj.forward(ctx, y);
  const View k = self_attn_k_proj.forward(ctx, y);
  rotate_(ctx, q);
  rotate_(ctx, k);
  attend_add_(ctx, {q, k, self_attn_v_proj.forward(ctx, y)}, self_attn_out_proj, x);
}

void MultiplexAttentionLayer::cross_attention_(Context& ctx, View x, ConstView image,
                                               const BucketMemory& memory) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View q = cross_attn_q_proj.forward(ctx, norm2.forward(ctx, x));
  image_cross_attn_q_proj.forward_add(ctx, image, q, q);
  rotate_(ctx, q);

  const std::int64_t positions = x.shape[0];
  const std::int64_t turned = static_cast<std::int64_t>(memory.maps.size()) * positions;
  const std::int64_t pointers = memory.pointers ? memory.pointers.shape[0] : 0;
  const View k = ctx.workspace.floats({turned + pointers, dim});
  const View v = ctx.workspace.floats(k.shape);
  const auto rows = [&](View of, std::int64_t first, std::int64_t count) {
    return View(of.data + first * dim, {count, dim});
  };
  const auto project = [&](ConstView objects, View key, View value) {
    cross_attn_k_proj.forward_add(ctx, objects, key, key);
    linear(ctx, objects, cross_attn_v_proj.packed, {.bias = cross_attn_v_proj.bias.data()}, value);
  };
  std::int64_t next = 0;
  for (const BucketMap& map : memory.maps) {
    const View key = rows(k, next, positions);
    copy_(ctx, key, memory.pos);
    add_(ctx, key, map.tpos);
    image_cross_attn_k_proj.forward_add(ctx, map.image, key, key);
    project(map.features, key, rows(v, next, positions));
    next += positions;
  }
  if (pointers > 0) {
    // Their part of the image is what zeros become.
    const View key = rows(k, turned, pointers);
    copy_(ctx, key, memory.pointer_pos);
    add_(ctx, key, image_cross_attn_k_proj.bias);
    project(memory.pointers, key, rows(v, turned, pointers));
  }
  rotate_(ctx, rows(k, 0, turned));
  attend_add_(ctx, {q, k, v}, cross_attn_out_proj, x);
}

void MultiplexAttentionLayer::feed_forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  mlp_add_(ctx, linear1, Activation::kGelu, linear2, norm3.forward(ctx, x), x);
  ctx.record(path, x);
}

// ---------------------------------------------------------------- MultiplexAttention

MultiplexAttention::MultiplexAttention(const MultiplexAttentionConfig& config, std::int64_t d_model)
    : norm(d_model, 1e-5F) {
  for (std::int64_t i = 0; i < config.num_layers; ++i) layers.emplace_back(config, d_model);
}

void MultiplexAttention::visit(ParamVisitor& v) {
  v("layers", layers);
  v("norm", norm);
}

std::vector<std::int64_t> MultiplexAttention::channel_order() const {
  const MultiplexAttentionLayer& layer = layers.front();
  return layer.rope.row_order(layer.dim, layer.dim);
}

View MultiplexAttention::begin(Context& ctx, ConstView map, ConstView pos) const {
  const View x = ctx.workspace.floats(map.shape);
  add_scaled(ctx, map, pos, 0.1F, x);
  layers.front().self_attention_(ctx, x);
  return x;
}

View MultiplexAttention::finish(Context& ctx, ConstView shared, ConstView map,
                                const BucketMemory& memory) const {
  const View x = ctx.workspace.floats(shared.shape);
  copy_(ctx, x, shared);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) layers[i].self_attention_(ctx, x);
    layers[i].cross_attention_(ctx, x, map, memory);
    layers[i].feed_forward_(ctx, x);
    ctx.check_interrupt();
  }
  norm.forward_(ctx, x);
  ctx.record(path, x);
  return x;
}

}  // namespace sam_rlx::sam3
