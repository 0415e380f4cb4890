#include "models/sam2/memory_attention.h"

#include <algorithm>

#include "layers/mlp.h"
#include "ops/attention.h"
#include "ops/elementwise.h"

namespace sam_rlx::sam2 {

namespace {

// From so many maps on, the products that all maps share pay, unless tile registers multiply whole
// keys: docs/develop/optimizations.md, keys-in-tiles.
constexpr std::size_t kManyMaps = 2;

}  // namespace

// ---------------------------------------------------------------- RoPEAttention

RoPEAttention::RoPEAttention(const MemoryAttentionConfig& config, std::int64_t kv_dim,
                             std::int64_t key_side)
    : dim(config.d_model),
      kv_in_dim(kv_dim),
      q_proj(dim, dim),
      k_proj(kv_dim, dim),
      v_proj(kv_dim, dim),
      out_proj(dim, dim),
      rope(config.feat_size, dim, config.rope_theta),
      key_rope(key_side, dim, config.rope_theta) {}

// fold() computes with the weights, so all of them are floats, whatever the file holds.
void RoPEAttention::visit(ParamVisitor& v) {
  const auto part = [&](const std::string& name, Linear& linear) {
    v((name + ".weight").c_str(), linear.weight, {linear.out_features, linear.in_features});
    v((name + ".bias").c_str(), linear.bias, {linear.out_features});
  };
  part("q_proj", q_proj);
  part("k_proj", k_proj);
  part("v_proj", v_proj);
  part("out_proj", out_proj);
}

void RoPEAttention::fold() {
  rope.build();
  key_rope.build();
  for (Linear* const linear : {&q_proj, &k_proj}) linear->reorder_rows(rope.row_order(dim, dim));
  v_proj.absorb(out_proj);
}

void RoPEAttention::pack(const KernelTable& kernels) {
  if (kv_in_dim < dim) {
    position_projection =
        pack_position_projection(kernels, k_proj.weight, k_proj.bias, key_rope.centered(),
                                 position_products_beside(kernels, weight_format));
  }
  for (Linear* const linear : {&q_proj, &k_proj, &v_proj}) {
    linear->weight_format = weight_format;
    linear->pack(kernels);
  }
}

void RoPEAttention::forward_add_(Context& ctx, ConstView query, const Keys& keys, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View q = q_proj.forward(ctx, query);
  rope.rotate_(ctx, q);
  const View averaged = ctx.workspace.floats({query.shape[0], kv_in_dim});
  if (keys.positions != nullptr) {
    position_attention(ctx,
                       {.query = q,
                        .projection = position_projection,
                        .positions = *keys.positions,
                        .scale = scale()},
                       averaged);
  } else {
    attend_to_parts(ctx, q, keys.parts, averaged);
  }
  v_proj.forward_add(ctx, averaged, x, x);
}

namespace {

// Projects rows of parts to keys, and turns those that have a position.
class ProjectedKeys final : public KeyMaker {
 public:
  ProjectedKeys(const RoPEAttention& attention, std::span<const KeyPart> parts)
      : attention_(attention), parts_(parts) {}

  void make(Context& ctx, std::size_t part, std::int64_t first, View out) const override {
    const ConstView inputs = parts_[part].key_input;
    const std::int64_t width = attention_.kv_in_dim;
    const ConstView rows{inputs.data + first * width, {out.shape[0], width}};
    const auto [packed, bias] = attention_.k_proj.affine();
    linear(ctx, rows, packed, {.bias = bias}, out);
    if (parts_[part].rotated) attention_.key_rope.rotate_rows_(ctx, first, out);
  }

 private:
  const RoPEAttention& attention_;
  std::span<const KeyPart> parts_;
};

}  // namespace

void RoPEAttention::attend_to_parts(Context& ctx, ConstView q, std::span<const KeyPart> parts,
                                    View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  auto* const attended_to =
      ctx.workspace.array<AttentionPart>(static_cast<std::int64_t>(parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    attended_to[i] = {{parts[i].value.data, kv_in_dim}, parts[i].key_input.shape[0]};
  }
  attention_to_parts(ctx,
                     {.head_dim = dim,
                      .value_dim = kv_in_dim,
                      .scale = scale(),
                      .query = {q.data, dim},
                      .num_queries = q.shape[0],
                      .parts = {attended_to, parts.size()},
                      .keys = ProjectedKeys(*this, parts),
                      .products = products_beside(ctx, weight_format)},
                     out);
}

// ---------------------------------------------------------------- MemoryAttentionLayer

MemoryAttentionLayer::MemoryAttentionLayer(const MemoryAttentionConfig& config)
    : self_attn(config, config.d_model, config.feat_size),
      cross_attn_image(config, config.kv_in_dim, config.key_side()),
      linear1(config.d_model, config.dim_feedforward),
      linear2(config.dim_feedforward, config.d_model),
      norm1(config.d_model, 1e-5F),
      norm2(config.d_model, 1e-5F),
      norm3(config.d_model, 1e-5F) {}

void MemoryAttentionLayer::visit(ParamVisitor& v) {
  v("self_attn", self_attn);
  v("cross_attn_image", cross_attn_image);
  v("linear1", linear1);
  v("linear2", linear2);
  v("norm1", norm1);
  v("norm2", norm2);
  v("norm3", norm3);
}

void MemoryAttentionLayer::self_attention_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View y = norm1.forward(ctx, x);
  const KeyPart part{.key_input = y, .value = y};
  self_attn.forward_add_(ctx, y, {.parts = {&part, 1}}, x);
}

void MemoryAttentionLayer::cross_attention_(Context& ctx, View x, const Keys& memory) const {
  const Workspace::Scope scratch(ctx.workspace);
  cross_attn_image.forward_add_(ctx, norm2.forward(ctx, x), memory, x);
}

void MemoryAttentionLayer::feed_forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  mlp_add_(ctx, linear1, Activation::kRelu, linear2, norm3.forward(ctx, x), x);
  ctx.record(path, x);
}

// ---------------------------------------------------------------- MemoryAttention

MemoryAttention::MemoryAttention(const MemoryAttentionConfig& sizes)
    : config(sizes), norm(sizes.d_model, 1e-5F) {
  for (std::int64_t i = 0; i < config.num_layers; ++i) layers.emplace_back(config);
}

void MemoryAttention::visit(ParamVisitor& v) {
  v("layers", layers);
  v("norm", norm);
}

View MemoryAttention::begin(Context& ctx, ConstView curr, ConstView curr_pos) const {
  const View x = ctx.workspace.floats(curr.shape);
  add_scaled(ctx, curr, curr_pos, 0.1F, x);
  layers.front().self_attention_(ctx, x);
  return x;
}

View MemoryAttention::finish(Context& ctx, ConstView shared, const Memory& memory) const {
  const View x = ctx.workspace.floats(shared.shape);
  const Workspace::Scope scratch(ctx.workspace);
  copy_(ctx, x, shared);
  PackedPositions positions;
  const Keys keys = prepare_keys(ctx, memory, positions);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const MemoryAttentionLayer& layer = layers[i];
    if (i > 0) layer.self_attention_(ctx, x);
    layer.cross_attention_(ctx, x, keys);
    layer.feed_forward_(ctx, x);
    ctx.check_interrupt();
  }
  norm.forward_(ctx, x);
  ctx.record(path, x);
  return x;
}

std::int64_t MemoryAttention::tokens_before(const MemoryMap& map) const {
  const std::int64_t side = config.key_side();
  return std::max<std::int64_t>(map.features.shape.rows() - side * side, 0);
}

// Those that stand before the maps, and the pointers.
MemoryAttention::Tokens MemoryAttention::tokens_of(Context& ctx, const Memory& memory) const {
  const std::int64_t width = config.kv_in_dim;
  const std::int64_t pointers = memory.pointers ? memory.pointers.shape[0] : 0;
  std::int64_t count = pointers;
  for (const MemoryMap& map : memory.maps) count += tokens_before(map);
  if (count == pointers) return {memory.pointers, memory.pointer_pos};
  const View values = ctx.workspace.floats({count, width});
  const View pos = ctx.workspace.floats({count, width});
  std::int64_t next = 0;
  const auto rows = [&](View tokens, std::int64_t number) {
    return View(tokens.data + next * width, {number, width});
  };
  for (const MemoryMap& map : memory.maps) {
    const std::int64_t number = tokens_before(map);
    copy_(ctx, rows(values, number), {map.features.data, {number, width}});
    copy_(ctx, rows(pos, number), {map.pos.data, {number, width}});
    if (map.tpos && number > 0) add_(ctx, rows(pos, number), map.tpos);
    next += number;
  }
  if (pointers > 0) {
    copy_(ctx, rows(values, pointers), memory.pointers);
    const View to = rows(pos, pointers);
    if (memory.pointer_pos) {
      copy_(ctx, to, memory.pointer_pos);
    } else {
      std::fill_n(to.data, to.numel(), 0.0F);
    }
  }
  return {values, pos};
}

// What all layers project their keys from: the memory plus its encoding. Values are the memory.
Keys MemoryAttention::prepare_keys(Context& ctx, const Memory& memory,
                                   PackedPositions& positions) const {
  const std::int64_t width = config.kv_in_dim;
  const auto room = static_cast<std::int64_t>(memory.maps.size()) + 1;
  auto* const maps = ctx.workspace.array<PositionMap>(room);
  std::size_t count = 0;
  for (const MemoryMap& map : memory.maps) {
    if (map.features.numel() == 0) continue;
    const std::int64_t before = tokens_before(map);
    const Shape shape{map.features.shape.rows() - before, width};
    maps[count++] = {{map.features.data + before * width, shape},
                     {map.pos.data + before * width, shape},
                     map.tpos};
  }
  const Tokens tokens = tokens_of(ctx, memory);
  const RoPEAttention& attention = layers.front().cross_attn_image;
  const bool in_tiles = ctx.kernels.bfloat16_tiles &&
                        products_beside(ctx, attention.weight_format) == Products::kBFloat16;
  const bool many = kManyMaps <= count && count <= std::size_t{kInt16Keys};
  if (!in_tiles && many && width < config.d_model) {
    positions = pack_positions(ctx, config.key_side(), {maps, count}, tokens.values, tokens.pos,
                               attention.position_projection.products);
    return {.positions = &positions};
  }
  auto* const parts = ctx.workspace.array<KeyPart>(room);
  for (std::size_t i = 0; i < count; ++i) {
    const View key_input = add(ctx, maps[i].features, maps[i].pos);
    if (maps[i].tpos) add_(ctx, key_input, maps[i].tpos);
    parts[i] = {.key_input = key_input, .value = maps[i].features};
  }
  if (tokens.values && tokens.values.numel() > 0) {
    const ConstView key_input = tokens.pos ? add(ctx, tokens.values, tokens.pos) : tokens.values;
    parts[count++] = {.key_input = key_input, .value = tokens.values, .rotated = false};
  }
  return {.parts = {parts, count}};
}

}  // namespace sam_rlx::sam2
