#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/conv.h"
#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/norm.h"
#include "models/sam/config.h"
#include "models/trunks/tiny_vit.h"

namespace sam_rlx::sam {

// Self-attention over a map, in windows or global, with decomposed relative positions.
// Upstream: segment_anything/modeling/image_encoder.py, Attention, window_partition,
// window_unpartition, add_decomposed_rel_pos.
struct ImageEncoderAttention {
  std::int64_t num_heads = 0;
  std::int64_t window_size = 0;  // 0: global
  std::int64_t grid = 0;         // side of the map
  std::int64_t table_side = 0;   // side of the window that rel_pos was trained for

  Linear qkv, proj;
  Tensor rel_pos_h, rel_pos_w;  // (2 * side - 1, head_dim)
  std::string path;

  ImageEncoderAttention() = default;
  ImageEncoderAttention(const ImageEncoderConfig& config, bool global);
  void visit(ParamVisitor& v);
  void pack(const KernelTable& kernels);
  // x (B, H, W, C), normalized -> residual + proj(attention(x)), written to out (B, H, W, C).
  void forward_add(Context& ctx, ConstView x, ConstView residual, View out) const;
};

// One transformer block, pre-norm, in place. Upstream: image_encoder.py, Block.
struct Block {
  LayerNorm norm1, norm2;
  ImageEncoderAttention attn;
  MLPBlock mlp;
  std::string path;

  Block() = default;
  Block(const ImageEncoderConfig& config, bool global);
  void visit(ParamVisitor& v);
  void forward_(Context& ctx, View x) const;  // x (B, H, W, C)
};

// Upstream: image_encoder.py, ImageEncoderViT.neck.
struct Neck {
  Conv2d conv1;     // neck.0: 1x1
  LayerNorm norm1;  // neck.1
  Conv2d conv2;     // neck.2
  LayerNorm norm2;  // neck.3
  std::string path;

  Neck() = default;
  Neck(std::int64_t in_chans, std::int64_t out_chans);
  void visit(ParamVisitor& v);
  void forward(Context& ctx, ConstView x, View out) const;  // (B, H, W, C) -> (B, H, W, out_chans)
};

// Upstream: image_encoder.py, PatchEmbed. The position table is added in the same pass.
struct PatchEmbed {
  Conv2d proj;
  std::string path;

  void visit(ParamVisitor& v) { v("proj", proj); }
  // (B, S, S, 3) -> (B, g, g, C)
  View forward(Context& ctx, ConstView image, ConstView pos_embed) const {
    return proj.forward(ctx, image, pos_embed);
  }
};

// Upstream: image_encoder.py, ImageEncoderViT.
struct ImageEncoderViT {
  ImageEncoderConfig config;

  PatchEmbed patch_embed;
  Tensor pos_embed;  // (1, g, g, C)
  std::vector<Block> blocks;
  Neck neck;
  std::string path;

  ImageEncoderViT() = default;
  explicit ImageEncoderViT(const ImageEncoderConfig& sizes);
  void visit(ParamVisitor& v);
  void pack(const KernelTable& kernels);
  // Normalized, padded image (1, S, S, 3) -> image embedding (1, g, g, out_chans). `early` get the
  // maps (1, g, g, early_dim) behind the first blocks with global attention.
  View forward(Context& ctx, ConstView image, std::span<const View> early = {}) const;
};

// Upstream: mobile_sam/modeling/tiny_vit_sam.py, TinyViT.
struct TinyViTEncoder {
  ImageEncoderConfig config;

  trunks::TinyViT trunk;
  Neck neck;
  std::string path;

  // Raises InternalError without sizes of TinyViT.
  explicit TinyViTEncoder(const ImageEncoderConfig& sizes);
  void visit(ParamVisitor& v);
  // Normalized, padded image (1, S, S, 3) -> image embedding (1, g, g, out_chans). `early` or none
  // gets the map (1, g, g, early_dim) behind layers.1.
  View forward(Context& ctx, ConstView image, std::span<const View> early = {}) const;
};

}  // namespace sam_rlx::sam
