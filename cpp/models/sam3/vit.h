#pragma once

#include <string>
#include <vector>

#include "layers/conv.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "layers/rope.h"
#include "models/sam3/config.h"

namespace sam_rlx::sam3 {

// Self-attention over a map, in windows or global, with a rotary encoding of the positions. In
// windows positions count from the window's corner; in global blocks the whole map spans the
// coordinates of one window. Upstream: sam3/model/vitdet.py, Attention, window_partition,
// window_unpartition.
struct Attention {
  std::int64_t num_heads = 0;
  std::int64_t window_size = 0;  // 0: global
  std::int64_t grid = 0;         // side of the map

  Linear qkv, proj;
  AxialRope rope;
  // What padded positions project to, (window_size^2, 3C), where windows do not divide the map.
  Tensor pad_qkv;
  std::string path;

  Attention() = default;
  Attention(const ViTConfig& config, bool global);
  void visit(ParamVisitor& v);
  void fold();
  void pack(const KernelTable& kernels);
  // x (B, H, W, C), normalized -> residual + proj(attention(x)), written to out (B, H, W, C).
  // Rows of a map may be left out at the ends if no window crosses the edge.
  void forward_add(Context& ctx, ConstView x, ConstView residual, View out) const;
};

// Two linear layers with GELU between them. Upstream: timm/layers/mlp.py, Mlp.
struct Mlp {
  Linear fc1, fc2;
  std::string path;

  Mlp() = default;
  Mlp(std::int64_t dim, std::int64_t hidden) : fc1(dim, hidden), fc2(hidden, dim) {}
  void visit(ParamVisitor& v);
  // x (..., C) gets fc2(GELU(fc1(input))) added, in place.
  void forward_add_(Context& ctx, ConstView input, View x) const;
};

// One transformer block, pre-norm, in place. Upstream: vitdet.py, Block.
struct Block {
  LayerNorm norm1;
  Attention attn;
  LayerNorm norm2;
  Mlp mlp;
  std::string path;

  Block() = default;
  Block(const ViTConfig& config, bool global);
  void visit(ParamVisitor& v);
  void forward_(Context& ctx, View x) const;  // x (B, H, W, C)

 private:
  // The same for some rows of one map that no window crosses the edge of.
  void forward_rows_(Context& ctx, View x) const;
  std::int64_t band_rows(const Context& ctx, const Shape& x) const;
};

// Upstream: vitdet.py, PatchEmbed. The position table is added in the same pass.
struct PatchEmbed {
  Conv2d proj;
  std::string path;

  void visit(ParamVisitor& v) { v("proj", proj); }
  // (B, S, S, 3) -> out (B, g, g, C)
  void forward(Context& ctx, ConstView image, ConstView pos_embed, View out) const {
    proj.forward(ctx, image, pos_embed, out);
  }
};

// Upstream: vitdet.py, ViT.
struct ViT {
  ViTConfig config;

  Tensor pos_embed;  // (1, table_rows, C); once folded the whole table (1, g, g, C)
  PatchEmbed patch_embed;
  LayerNorm ln_pre;
  std::vector<Block> blocks;
  std::string path;

  ViT() = default;
  explicit ViT(const ViTConfig& sizes);
  void visit(ParamVisitor& v);
  void fold();
  // Normalized image (1, S, S, 3) -> its map (1, g, g, C), in the scope of the caller.
  View forward(Context& ctx, ConstView image) const;
};

}  // namespace sam_rlx::sam3
