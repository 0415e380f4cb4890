#include "models/sam3/vit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "layers/mlp.h"
#include "ops/attention.h"

namespace sam_rlx::sam3 {
namespace {

// Upstream's get_abs_pos: the last side^2 rows of the table (1, N, C), laid out on the grid as
// tiles from the corner on.
Tensor tiled_table(const Tensor& table, std::int64_t side, std::int64_t grid) {
  const std::int64_t channels = table.shape()[2], first = table.shape()[1] - side * side;
  Tensor out({1, grid, grid, channels});
  for (std::int64_t y = 0; y < grid; ++y) {
    for (std::int64_t x = 0; x < grid; ++x) {
      const std::int64_t row = first + y % side * side + x % side;
      std::copy_n(table.data() + row * channels, channels, out.data() + (y * grid + x) * channels);
    }
  }
  return out;
}

}  // namespace

// ---------------------------------------------------------------- Attention

Attention::Attention(const ViTConfig& config, bool global)
    : num_heads(config.num_heads),
      window_size(global ? 0 : config.window_size),
      grid(config.grid()),
      qkv(config.embed_dim, 3 * config.embed_dim),
      proj(config.embed_dim, config.embed_dim),
      rope(global ? config.grid() : config.window_size, config.head_dim(), ViTConfig::kRopeTheta) {
  rope.scale = static_cast<double>(config.window_size) / static_cast<double>(rope.side);
}

void Attention::visit(ParamVisitor& v) {
  v("qkv", qkv);
  v("proj", proj);
}

// Queries and keys of each head in the order that the rotation expects: their products do not
// depend on it.
void Attention::fold() {
  rope.build();
  qkv.reorder_rows(rope.row_order(qkv.out_features, 2 * qkv.in_features));
}

void Attention::pack(const KernelTable& kernels) {
  if (window_size == 0 || grid % window_size == 0) return;
  // Upstream pads after the norm: padded positions project to the bias, and turn as others do.
  const std::int64_t channels = qkv.out_features;
  pad_qkv = Tensor({1, window_size, window_size, channels});
  for (std::int64_t i = 0; i < window_size * window_size; ++i) {
    std::copy_n(qkv.bias.data(), channels, pad_qkv.data() + i * channels);
  }
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  rotate_heads_(ctx, rope.angles(), 2 * num_heads, pad_qkv);
}

void Attention::forward_add(Context& ctx, ConstView x, ConstView residual, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View projected = qkv.forward(ctx, x);
  rotate_heads_(ctx, rope.angles(), 2 * num_heads, projected);
  const View attended = ctx.workspace.floats(x.shape);
  window_attention(ctx,
                   {.qkv = projected,
                    .grid = {.height = x.shape[1], .width = x.shape[2], .size = window_size},
                    .num_heads = num_heads,
                    .scale = 1.0F / std::sqrt(static_cast<float>(rope.dim)),
                    .rel_pos = {},
                    .pad_qkv = pad_qkv.data(),
                    .pad_stride = qkv.out_features,
                    .products = products_beside(ctx, qkv.packed.format)},
                   attended);
  proj.forward_add(ctx, attended, residual, out);
}

// ---------------------------------------------------------------- Mlp

void Mlp::visit(ParamVisitor& v) {
  v("fc1", fc1);
  v("fc2", fc2);
}

void Mlp::forward_add_(Context& ctx, ConstView input, View x) const {
  mlp_add_(ctx, fc1, Activation::kGelu, fc2, input, x);
}

// ---------------------------------------------------------------- Block

Block::Block(const ViTConfig& config, bool global)
    : norm1(config.embed_dim, static_cast<float>(config.layer_norm_eps)),
      attn(config, global),
      norm2(config.embed_dim, static_cast<float>(config.layer_norm_eps)),
      mlp(config.embed_dim, config.mlp_dim()) {}

void Block::visit(ParamVisitor& v) {
  v("norm1", norm1);
  v("attn", attn);
  v("norm2", norm2);
  v("mlp", mlp);
}

std::int64_t Block::band_rows(const Context& ctx, const Shape& x) const {
  // Floats of a band's projections, for each thread: those of a whole map are never in memory.
  constexpr std::int64_t kBandFloats = 1 << 19;
  const std::int64_t window = attn.window_size;
  if (window == 0) return x[1];
  const std::int64_t row = window * x[2] * attn.qkv.out_features;
  const std::int64_t windows = kBandFloats * std::max(ctx.num_threads, 1) / row;
  return window * std::max<std::int64_t>(windows, 1);
}

void Block::forward_(Context& ctx, View x) const {
  const std::int64_t height = x.shape[1], row = x.shape[2] * x.shape[3];
  const std::int64_t band = band_rows(ctx, x.shape);
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    for (std::int64_t y = 0; y < height; y += band) {
      const std::int64_t rows = std::min(band, height - y);
      forward_rows_(ctx, {x[b].data + y * row, {1, rows, x.shape[2], x.shape[3]}});
    }
  }
  ctx.record(path, x);
}

void Block::forward_rows_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  attn.forward_add(ctx, norm1.forward(ctx, x), x, x);
  mlp.forward_add_(ctx, norm2.forward(ctx, x), x);
}

// ---------------------------------------------------------------- ViT

ViT::ViT(const ViTConfig& sizes)
    : config(sizes), ln_pre(sizes.embed_dim, static_cast<float>(sizes.layer_norm_eps)) {
  patch_embed.proj =
      Conv2d(config.in_chans, config.embed_dim, conv_patches(config.patch_size), false);
  for (std::int64_t i = 0; i < config.depth; ++i) blocks.emplace_back(config, config.is_global(i));
}

void ViT::visit(ParamVisitor& v) {
  v("pos_embed", pos_embed, {1, config.table_rows(), config.embed_dim});
  v("patch_embed", patch_embed);
  v("ln_pre", ln_pre);
  v("blocks", blocks);
}

void ViT::fold() { pos_embed = tiled_table(pos_embed, config.table_grid(), config.grid()); }

View ViT::forward(Context& ctx, ConstView image) const {
  const std::int64_t g = config.grid();
  const View x = ctx.workspace.floats({1, g, g, config.embed_dim});
  patch_embed.forward(ctx, image, pos_embed, x);
  ctx.record(patch_embed.path, x);
  ln_pre.forward_(ctx, x);
  ctx.record(ln_pre.path, x);
  for (std::int64_t i = 0; i <= config.last_block(); ++i) {
    ctx.check_interrupt();
    blocks[static_cast<std::size_t>(i)].forward_(ctx, x);
  }
  return x;
}

}  // namespace sam_rlx::sam3
