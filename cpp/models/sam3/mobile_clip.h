#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "models/sam3/text_config.h"

// The text encoder of SAM3-LiteText: MobileCLIP's. Upstream: EfficientSAM3's
// sam3/backbones/mobile_clip.py. Every text has all positions of the table, those behind its end
// with id 0, and all positions see each other: what a text gives depends on their number.

namespace sam_rlx::sam3 {

// Convolution of each channel with itself along the text, without bias, and batch norm.
// Upstream: torch.nn.Conv2d with a kernel of (1, size), groups=channels.
struct TextConvBN {
  std::int64_t channels = 0, size = 0;
  Tensor weight;  // (C, 1, 1, size)
  Tensor bias;    // (C,), once folded
  BatchNorm bn;

  TextConvBN() = default;
  TextConvBN(std::int64_t count, std::int64_t length) : channels(count), size(length), bn(count) {}
  void visit(ParamVisitor& v);
  void fold() { bn.fold_into({weight, bias}); }
};

// The same with its residual: x + scale * (bn(x) + conv(x) - norm(x)), as one convolution.
struct RepMixer {
  BatchNorm norm, skip;
  TextConvBN conv;
  Tensor layer_scale;  // (C, 1, 1)

  RepMixer() = default;
  RepMixer(std::int64_t channels, std::int64_t size)
      : norm(channels), skip(channels), conv(channels, size) {}
  void visit(ParamVisitor& v);
  void fold();
};

struct ConvFfn {
  TextConvBN conv;
  PointwiseConvBN fc1, fc2;  // without batch norm

  void visit(ParamVisitor& v);
};

struct RepMixerBlock {
  RepMixer token_mixer;
  ConvFfn convffn;
  Tensor layer_scale;  // (C, 1, 1); becomes part of convffn.fc2
  std::string path;

  RepMixerBlock() = default;
  RepMixerBlock(std::int64_t width, std::int64_t size);
  void visit(ParamVisitor& v);
  void fold();
  // x (texts, length, C)
  void forward_(Context& ctx, View x) const;
};

struct MultiHeadAttention {
  std::int64_t num_heads = 0;
  Linear qkv_proj, out_proj;

  void visit(ParamVisitor& v);
  // x (texts, length, C) gets the attention of `input` added.
  void forward_add_(Context& ctx, ConstView input, View x) const;
};

struct TransformerEncoder {
  LayerNorm attn_norm, ffn_norm;
  MultiHeadAttention attn;
  Linear fc1, fc2;
  std::string path;

  TransformerEncoder() = default;
  TransformerEncoder(std::int64_t width, std::int64_t heads);
  void visit(ParamVisitor& v);
  void forward_(Context& ctx, View x) const;
};

struct TokenIds;

// Upstream: MobileCLIPTextTransformer. Its projection_layer makes a vector of each text that
// nothing reads.
struct MobileClipTextTransformer {
  TextEncoderConfig config;
  Tensor token_embedding;       // (vocab_size, width)
  BlockRows token_blocks;       // instead of the table, if it stays in the blocks of its file
  Tensor positional_embedding;  // (1, 1, context_length, width)
  std::optional<RepMixerBlock> first, last;
  std::vector<TransformerEncoder> layers;  // between these
  LayerNorm final_layer_norm;

  MobileClipTextTransformer() = default;
  explicit MobileClipTextTransformer(const TextEncoderConfig& sizes);
  void visit(ParamVisitor& v);
  // -> (texts, context_length, width)
  View forward(Context& ctx, const TokenIds& ids) const;
};

}  // namespace sam_rlx::sam3
