#include "models/sam/image_encoder.h"

#include <cmath>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/resize.h"

namespace sam_rlx::sam {
namespace {

// Upstream's get_rel_pos: a table (L, D) of another length is interpolated linearly.
Tensor resize_table(const KernelTable& kernels, const Tensor& table, std::int64_t length) {
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  Tensor out({length, table.shape()[1]});
  resize_linear_rows(ctx, table, out);
  return out;
}

// A table (1, H, W, C) for another grid. Upstream knows one input side only; as ViTDet
// (detectron2, get_abs_pos): bicubic.
Tensor resize_pos_embed(const KernelTable& kernels, const Tensor& table, std::int64_t grid) {
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  Tensor out({1, grid, grid, table.shape()[3]});
  resize_bicubic_hwc(ctx, table.view()[0], out.view()[0]);
  return out;
}

}  // namespace

// ---------------------------------------------------------------- Attention

ImageEncoderAttention::ImageEncoderAttention(const ImageEncoderConfig& config, bool global)
    : num_heads(config.num_heads),
      window_size(global ? 0 : config.window_size),
      grid(config.grid()),
      table_side(global ? config.table_grid() : config.window_size),
      qkv(config.embed_dim, 3 * config.embed_dim),
      proj(config.embed_dim, config.embed_dim) {}

void ImageEncoderAttention::visit(ParamVisitor& v) {
  const Shape table{2 * table_side - 1, proj.in_features / num_heads};
  v("rel_pos_h", rel_pos_h, table);
  v("rel_pos_w", rel_pos_w, table);
  v("qkv", qkv);
  v("proj", proj);
}

void ImageEncoderAttention::pack(const KernelTable& kernels) {
  const std::int64_t side = window_size > 0 ? window_size : grid;
  if (side == table_side) return;
  rel_pos_h = resize_table(kernels, rel_pos_h, 2 * side - 1);
  rel_pos_w = resize_table(kernels, rel_pos_w, 2 * side - 1);
}

void ImageEncoderAttention::forward_add(Context& ctx, ConstView x, ConstView residual,
                                        View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View projected = qkv.forward(ctx, x);
  const View attended = ctx.workspace.floats(x.shape);
  const std::int64_t head_dim = proj.in_features / num_heads;
  window_attention(ctx,
                   {.qkv = projected,
                    .grid = {.height = x.shape[1], .width = x.shape[2], .size = window_size},
                    .num_heads = num_heads,
                    .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
                    .rel_pos = {rel_pos_h.data(), rel_pos_w.data()},
                    // Upstream pads after the norm: padded positions project to the bias.
                    .pad_qkv = qkv.bias.data(),
                    .products = products_beside(ctx, qkv.packed.format)},
                   attended);
  proj.forward_add(ctx, attended, residual, out);
}

// ---------------------------------------------------------------- Block

Block::Block(const ImageEncoderConfig& config, bool global)
    : norm1(config.embed_dim, static_cast<float>(config.layer_norm_eps)),
      norm2(config.embed_dim, static_cast<float>(config.layer_norm_eps)),
      attn(config, global),
      mlp(config.embed_dim, config.mlp_dim, Activation::kGelu) {}

void Block::visit(ParamVisitor& v) {
  v("norm1", norm1);
  v("attn", attn);
  v("norm2", norm2);
  v("mlp", mlp);
}

void Block::forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  attn.forward_add(ctx, norm1.forward(ctx, x), x, x);
  mlp.forward_add_(ctx, norm2.forward(ctx, x), x);
  ctx.record(path, x);
}

// ---------------------------------------------------------------- Neck

Neck::Neck(std::int64_t in_chans, std::int64_t out_chans)
    : conv1(in_chans, out_chans, kConv1x1, false),
      norm1(out_chans, 1e-6F),
      conv2(out_chans, out_chans, kConv3x3, false),
      norm2(out_chans, 1e-6F) {}

void Neck::visit(ParamVisitor& v) {
  v("0", conv1);
  v("1", norm1);
  v("2", conv2);
  v("3", norm2);
}

void Neck::forward(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View y = conv1.forward(ctx, x);
  norm1.forward_(ctx, y);
  const View z = conv2.forward(ctx, y);
  layer_norm(ctx, z, norm2.weight, norm2.bias, norm2.eps, out);
  ctx.record(path, out);
}

// ---------------------------------------------------------------- ImageEncoderViT

ImageEncoderViT::ImageEncoderViT(const ImageEncoderConfig& sizes)
    : config(sizes), neck(sizes.embed_dim, sizes.out_chans) {
  patch_embed.proj = Conv2d(config.in_chans, config.embed_dim, conv_patches(config.patch_size));
  for (std::int64_t i = 0; i < config.depth; ++i) blocks.emplace_back(config, config.is_global(i));
}

void ImageEncoderViT::visit(ParamVisitor& v) {
  v("pos_embed", pos_embed, {1, config.table_grid(), config.table_grid(), config.embed_dim});
  v("patch_embed", patch_embed);
  v("blocks", blocks);
  v("neck", neck);
}

void ImageEncoderViT::pack(const KernelTable& kernels) {
  if (config.grid() == config.table_grid()) return;
  pos_embed = resize_pos_embed(kernels, pos_embed, config.grid());
}

View ImageEncoderViT::forward(Context& ctx, ConstView image, std::span<const View> early) const {
  const std::int64_t g = config.grid();
  const View out = ctx.workspace.floats({1, g, g, config.out_chans});
  const Workspace::Scope scratch(ctx.workspace);
  const View x = patch_embed.forward(ctx, image, pos_embed);
  ctx.record(patch_embed.path, x);
  for (const Block& block : blocks) {
    ctx.check_interrupt();
    block.forward_(ctx, x);
    if (!early.empty() && block.attn.window_size == 0) {
      copy_(ctx, early.front(), x);
      early = early.subspan(1);
    }
  }
  neck.forward(ctx, x, out);
  return out;
}

// ---------------------------------------------------------------- TinyViTEncoder

TinyViTEncoder::TinyViTEncoder(const ImageEncoderConfig& sizes) : config(sizes) {
  if (!config.tiny_vit) fail_internal("TinyViT: sizes do not match");
  trunk = trunks::TinyViT(config.in_chans, *config.tiny_vit);
  neck = Neck(config.tiny_vit->embed_dims.back(), config.out_chans);
}

void TinyViTEncoder::visit(ParamVisitor& v) {
  v("", trunk);
  v("neck", neck);
}

View TinyViTEncoder::forward(Context& ctx, ConstView image, std::span<const View> early) const {
  const std::int64_t g = config.grid();
  const View out = ctx.workspace.floats({1, g, g, config.out_chans});
  const Workspace::Scope scratch(ctx.workspace);
  neck.forward(ctx, trunk.forward(ctx, image, early), out);
  return out;
}

}  // namespace sam_rlx::sam
