#include "models/sam2/hiera.h"

#include <cmath>

#include "layers/fold.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/pool.h"
#include "ops/resize.h"
#include "ops/window_groups.h"

namespace sam_rlx::sam2 {
namespace {

// Upstream's _get_pos_embed: the table resized to the grid, plus the window's table as tiles.
Tensor position_table(const KernelTable& kernels, const Tensor& pos_embed,
                      const Tensor& pos_embed_window, std::int64_t grid) {
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  const Shape& map = pos_embed.shape();
  const std::int64_t channels = map[1], side = pos_embed_window.shape()[2];
  const Tensor table = transposed(pos_embed.view()[0]),
               tile = transposed(pos_embed_window.view()[0]);
  Tensor out({1, grid, grid, channels});
  resize_bicubic_hwc(ctx, table.view().reshape({map[2], map[3], channels}), out.view()[0]);
  const std::int64_t row = grid * channels;
  for (std::int64_t y = 0; y < grid; ++y) {
    const ConstView tile_row(tile.data() + y % side * side * channels, {side * channels});
    add_(ctx, View{out.data() + y * row, {row}}, tile_row);
  }
  return out;
}

}  // namespace

// ---------------------------------------------------------------- MultiScaleAttention

MultiScaleAttention::MultiScaleAttention(const MultiScaleBlockConfig& config)
    : num_heads(config.num_heads),
      window_size(config.window_size),
      q_pool(config.q_pool),
      qkv(config.dim, 3 * config.dim_out),
      proj(config.dim_out, config.dim_out) {}

void MultiScaleAttention::visit(ParamVisitor& v) {
  v("qkv", qkv);
  v("proj", proj);
}

void MultiScaleAttention::forward_add(Context& ctx, ConstView x, ConstView residual,
                                      View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View projected = qkv.forward(ctx, x);
  // Upstream pools inside of windows. Their sides and those of the map are even, so a pooled query
  // that is kept comes from four positions of the map: it can be made before the windows.
  View query;
  if (q_pool) {
    query = ctx.workspace.floats(out.shape);
    max_pool2x2(ctx, projected, query);
  }
  const View attended = ctx.workspace.floats(out.shape);
  const std::int64_t head_dim = proj.in_features / num_heads;
  window_attention(ctx,
                   {.qkv = projected,
                    .grid = {.height = x.shape[1], .width = x.shape[2], .size = window_size},
                    .num_heads = num_heads,
                    .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
                    .rel_pos = {},
                    // Upstream pads after the norm: padded positions project to the bias.
                    .pad_qkv = qkv.bias.data(),
                    .query = query,
                    .products = products_beside(ctx, qkv.packed.format)},
                   attended);
  proj.forward_add(ctx, attended, residual, out);
}

// ---------------------------------------------------------------- MultiScaleBlock

MultiScaleBlock::MultiScaleBlock(const MultiScaleBlockConfig& sizes)
    : config(sizes),
      norm1(sizes.dim, static_cast<float>(sizes.layer_norm_eps)),
      attn(sizes),
      norm2(sizes.dim_out, static_cast<float>(sizes.layer_norm_eps)),
      mlp(sizes.dim_out, sizes.mlp_dim, Activation::kGelu),
      proj(sizes.dim, sizes.dim_out) {
  mlp.numbered = true;
}

void MultiScaleBlock::visit(ParamVisitor& v) {
  v("norm1", norm1);
  v("attn", attn);
  v("norm2", norm2);
  v("mlp", mlp);
  if (widens()) v("proj", proj);
}

void MultiScaleBlock::forward(Context& ctx, ConstView x, View out) const {
  const std::int64_t height = x.shape[1], width = x.shape[2];
  const WindowGroups groups(height, width, config.window_size > 0 ? config.window_size : height);
  if (config.window_size > 0 && groups.enough_for(ctx.num_threads)) {
    const auto part = [this](Context& own, ConstView in, View result) {
      forward_part(own, in, result);
    };
    for (std::int64_t b = 0; b < x.shape[0]; ++b) {
      for_window_groups(ctx, groups, x[b], out[b], part);
    }
  } else {
    forward_part(ctx, x, out);
  }
  ctx.record(path, out);
}

void MultiScaleBlock::forward_part(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View normed = norm1.forward(ctx, x);

  // The shortcut of a block that widens comes from the normalized input, projected, then pooled.
  ConstView shortcut = x;
  if (widens()) {
    const Workspace::Scope inner(ctx.workspace);
    if (config.q_pool) {
      max_pool2x2(ctx, proj.forward(ctx, normed), out);
    } else {
      linear(ctx, normed, proj.packed, {.bias = proj.bias.data()}, out);
    }
    shortcut = out;
  }
  attn.forward_add(ctx, normed, shortcut, out);
  mlp.forward_add_(ctx, norm2.forward(ctx, out), out);
}

// ---------------------------------------------------------------- Hiera

Hiera::Hiera(const HieraConfig& sizes)
    : config(sizes), patch_embed(sizes.in_chans, sizes.embed_dim) {
  for (const MultiScaleBlockConfig& block : config.blocks()) blocks.emplace_back(block);
}

void Hiera::visit(ParamVisitor& v) {
  const auto& background = config.window_pos_embed_bkg_spatial_size;
  const std::int64_t side = config.window_spec.front();
  v("pos_embed", pos_embed, {1, config.embed_dim, background[0], background[1]});
  v("pos_embed_window", pos_embed_window, {1, config.embed_dim, side, side});
  v("patch_embed", patch_embed);
  v("blocks", blocks);
}

void Hiera::pack(const KernelTable& kernels) {
  pos_embed = position_table(kernels, pos_embed, pos_embed_window, config.grid());
  pos_embed_window = Tensor();
}

std::vector<View> Hiera::forward(Context& ctx, ConstView image) const {
  std::vector<View> stages;
  for (std::int64_t i = 0; i < config.num_stages(); ++i) {
    const std::int64_t side = config.stage_grid(i);
    stages.push_back(ctx.workspace.floats({1, side, side, config.stage_width(i)}));
  }
  patch_embed.forward(ctx, image, pos_embed, stages.front());
  ctx.record(patch_embed.path, stages.front());
  // Blocks work in place; the first one of a stage leaves the map of the stage before as it is.
  auto stage = stages.begin();
  for (const MultiScaleBlock& block : blocks) {
    ctx.check_interrupt();
    const ConstView x = *stage;
    if (block.widens()) ++stage;
    block.forward(ctx, x, *stage);
  }
  return stages;
}

}  // namespace sam_rlx::sam2
