#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "models/trunks/config.h"
#include "ops/attention.h"

// Upstream of all: mobile_sam/modeling/tiny_vit_sam.py, and of EfficientSAM3
// sam3/backbones/tiny_vit.py. Maps are (B, H, W, C).

namespace sam_rlx::trunks {

// Two convolutions. Upstream: PatchEmbed.
struct TinyViTPatchEmbed {
  Conv2dBN conv1, conv2;  // seq.0, seq.2
  std::string path;

  TinyViTPatchEmbed() = default;
  TinyViTPatchEmbed(std::int64_t in_chans, const TinyViTConfig& config);
  void visit(ParamVisitor& v);
  View forward(Context& ctx, ConstView image) const;
};

// gelu(x + conv3(gelu(conv2(gelu(conv1(x)))))). Upstream: MBConv.
struct MBConv {
  PointwiseConvBN conv1;
  DepthwiseConvBN conv2;
  PointwiseConvBN conv3;
  std::string path;

  MBConv(std::int64_t channels, std::int64_t hidden);
  void visit(ParamVisitor& v);
  void forward(Context& ctx, ConstView x, View out) const;  // out of x's shape, and not x
};

// conv3(gelu(conv2(gelu(conv1(x))))): a map of other channels, half as large where the stride is 2.
// Upstream: PatchMerging.
struct PatchMerging {
  PointwiseConvBN conv1;
  DepthwiseConvBN conv2;
  PointwiseConvBN conv3;
  std::string path;

  PatchMerging(std::int64_t channels, std::int64_t out_channels, std::int64_t stride);
  void visit(ParamVisitor& v);
  View forward(Context& ctx, ConstView x) const;
};

// Attention in windows, with a term for each distance. The norm belongs to it: padded positions
// are zeros before it, and so are all one vector behind it.
// Upstream: Attention, and the windows of TinyViTBlock.
struct TinyViTAttention {
  std::int64_t num_heads = 1, window_size = 7;

  LayerNorm norm;
  Linear qkv, proj;
  Tensor attention_biases;  // (heads, window_size, window_size)
  Tensor pad_qkv;           // (3 * C,): what padded positions project to
  std::string path;

  TinyViTAttention() = default;
  TinyViTAttention(std::int64_t channels, std::int64_t heads, std::int64_t window);
  void visit(ParamVisitor& v);
  void fold();
  void pack(const KernelTable& kernels);
  // x -> x + attention(x), written to out.
  void forward_add(Context& ctx, ConstView x, View out) const;
  // The same for a part of the map that no window reaches out of; out may be x.
  void forward_part(Context& ctx, ConstView x, const DistanceTerms& distances, View out) const;
};

// Upstream: Mlp.
struct TinyViTMlp {
  LayerNorm norm;
  Linear fc1, fc2;
  std::string path;

  TinyViTMlp() = default;
  TinyViTMlp(std::int64_t channels, std::int64_t hidden);
  void visit(ParamVisitor& v);
  void forward_add_(Context& ctx, View x) const;
};

// Upstream: TinyViTBlock.
struct TinyViTBlock {
  TinyViTAttention attn;
  TinyViTMlp mlp;
  DepthwiseConvBN local_conv;
  std::string path;

  TinyViTBlock(const TinyViTConfig& config, std::int64_t layer);
  void visit(ParamVisitor& v);
  void forward(Context& ctx, ConstView x, View out) const;  // out of x's shape; may be x
};

// Blocks, and what makes the map of the next layer. Upstream: ConvLayer, BasicLayer.
template <class Block>
struct TinyViTLayer {
  std::vector<Block> blocks;
  std::optional<PatchMerging> downsample;
  std::string path;

  void visit(ParamVisitor& v) {
    v("blocks", blocks);
    if (downsample) v("downsample", *downsample);
  }
  // Changes x. The result may be x.
  View forward(Context& ctx, View x) const {
    View y = ctx.workspace.floats(x.shape);
    for (const Block& block : blocks) {
      ctx.check_interrupt();
      block.forward(ctx, x, y);
      std::swap(x, y);
    }
    return downsample ? downsample->forward(ctx, x) : x;
  }
};

// Upstream: TinyViT, without what stands behind its layers.
struct TinyViT {
  TinyViTConfig config;

  TinyViTPatchEmbed patch_embed;
  TinyViTLayer<MBConv> conv_layer;                 // layers.0
  std::vector<TinyViTLayer<TinyViTBlock>> layers;  // layers.1, ...
  std::string path;

  TinyViT() = default;
  // Raises InternalError where sizes do not fit each other.
  TinyViT(std::int64_t in_chans, const TinyViTConfig& sizes);
  void visit(ParamVisitor& v);
  // Normalized image (1, S, S, in_chans) -> its map, in the scope of the caller. `early` or none
  // gets the map behind layers.1.
  View forward(Context& ctx, ConstView image, std::span<const View> early = {}) const;
};

}  // namespace sam_rlx::trunks
