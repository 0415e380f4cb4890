#pragma once

#include <string>
#include <vector>

#include "layers/conv.h"
#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam2/config.h"

namespace sam_rlx::sam2 {

// Self-attention in windows or global; in the first block of a stage the queries are pooled 2x2.
// Upstream: sam2/modeling/backbones/hieradet.py, MultiScaleAttention, and
// sam2/modeling/backbones/utils.py, window_partition, window_unpartition.
struct MultiScaleAttention {
  std::int64_t num_heads = 1;
  std::int64_t window_size = 0;  // 0: global
  bool q_pool = false;

  Linear qkv, proj;
  std::string path;

  MultiScaleAttention() = default;
  explicit MultiScaleAttention(const MultiScaleBlockConfig& config);
  void visit(ParamVisitor& v);
  // x (B, H, W, dim), normalized -> residual + proj(attention(x)), written to out; both have the
  // shape (B, H', W', dim_out), with halved sides if queries are pooled.
  void forward_add(Context& ctx, ConstView x, ConstView residual, View out) const;
};

// One transformer block, pre-norm. Upstream: hieradet.py, MultiScaleBlock.
struct MultiScaleBlock {
  MultiScaleBlockConfig config;

  LayerNorm norm1;
  MultiScaleAttention attn;
  LayerNorm norm2;
  MLPBlock mlp;
  Linear proj;  // of the shortcut, where the width changes
  std::string path;

  MultiScaleBlock() = default;
  explicit MultiScaleBlock(const MultiScaleBlockConfig& sizes);
  void visit(ParamVisitor& v);
  bool widens() const { return config.dim != config.dim_out; }
  // x (B, H, W, dim) -> out (B, H', W', dim_out); out may be x where the width stays.
  void forward(Context& ctx, ConstView x, View out) const;

 private:
  // The same for a part of a map that no window crosses the edge of.
  void forward_part(Context& ctx, ConstView x, View out) const;
};

// Upstream: sam2/modeling/backbones/utils.py, PatchEmbed. The position table is added in the same
// pass.
struct PatchEmbed {
  Conv2d proj;  // 7x7, stride 4, padding 3
  std::string path;

  PatchEmbed() = default;
  PatchEmbed(std::int64_t in_chans, std::int64_t embed_dim)
      : proj(in_chans, embed_dim,
             {.kernel = 7, .stride = HieraConfig::kPatchStride, .padding = 3}) {}
  void visit(ParamVisitor& v) { v("proj", proj); }
  // (B, S, S, in) -> out (B, g, g, C)
  void forward(Context& ctx, ConstView image, ConstView pos_embed, View out) const {
    proj.forward(ctx, image, pos_embed, out);
  }
};

// Upstream: hieradet.py, Hiera.
struct Hiera {
  HieraConfig config;

  Tensor pos_embed;         // (1, C, h, w); once packed the whole table (1, g, g, C)
  Tensor pos_embed_window;  // (1, C, side, side); gone once packed
  PatchEmbed patch_embed;
  std::vector<MultiScaleBlock> blocks;
  std::string path;

  Hiera() = default;
  explicit Hiera(const HieraConfig& sizes);
  void visit(ParamVisitor& v);
  void pack(const KernelTable& kernels);

  // Normalized image (1, S, S, 3) -> the map after each stage, finest first, in the scope of the
  // caller.
  std::vector<View> forward(Context& ctx, ConstView image) const;
};

}  // namespace sam_rlx::sam2
