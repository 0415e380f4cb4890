#include "models/sam3/mobile_clip.h"

#include <algorithm>
#include <cmath>

#include "layers/mlp.h"
#include "models/sam3/text_encoder.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace sam_rlx::sam3 {
namespace {

// (C, 1, 1, size) -> (size * size, C), as the op has kernels of maps: only the middle row, since a
// text is a map of one row.
Tensor map_kernel(ConstView weight) {
  const std::int64_t channels = weight.shape[0], size = weight.shape[3];
  Tensor kernel = Tensor::zeros({size * size, channels});
  float* const middle = kernel.data() + size / 2 * size * channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t k = 0; k < size; ++k) {
      middle[k * channels + c] = weight.data[c * size + k];
    }
  }
  return kernel;
}

void convolve(Context& ctx, ConstView x, const TextConvBN& conv, View out) {
  const Shape map{x.shape[0], 1, x.shape[1], x.shape[2]};
  depthwise_conv(ctx, x.reshape(map), {conv.weight, conv.bias, 1, Activation::kNone},
                 out.reshape(map));
}

// Scale and shift of a batch norm.
struct ScaleShift {
  Tensor scale, shift;  // (C, 1), (C,)
};
ScaleShift constants_of(BatchNorm& norm) {
  ScaleShift found{.scale = Tensor({norm.channels, 1}), .shift = {}};
  std::fill_n(found.scale.data(), norm.channels, 1.0F);
  norm.fold_into({found.scale, found.shift});
  return found;
}

}  // namespace

// ---------------------------------------------------------------- RepMixer

void TextConvBN::visit(ParamVisitor& v) {
  v("conv.weight", weight, {channels, 1, 1, size});
  v("bn", bn);
}

void RepMixer::visit(ParamVisitor& v) {
  v("layer_scale", layer_scale, {conv.channels, 1, 1});
  v("norm.rbr_skip", norm);
  v("mixer.rbr_skip", skip);
  v("mixer.rbr_conv.0", conv);
}

void RepMixer::fold() {
  const ScaleShift minus = constants_of(norm), plus = constants_of(skip);
  const auto at = [](const Tensor& tensor, std::int64_t c) {
    return static_cast<double>(tensor.data()[c]);
  };
  for (std::int64_t c = 0; c < conv.channels; ++c) {
    const double scale = at(layer_scale, c);
    float* const taps = conv.weight.data() + c * conv.size;
    for (std::int64_t k = 0; k < conv.size; ++k) {
      double tap = scale * static_cast<double>(taps[k]);
      if (k == conv.size / 2) tap += 1.0 + scale * (at(plus.scale, c) - at(minus.scale, c));
      taps[k] = static_cast<float>(tap);
    }
    conv.bias.data()[c] =
        static_cast<float>(scale * (at(conv.bias, c) + at(plus.shift, c) - at(minus.shift, c)));
  }
  conv.weight = map_kernel(conv.weight);
  layer_scale = Tensor();
}

void ConvFfn::visit(ParamVisitor& v) {
  v("conv", conv);
  v("fc1", fc1);
  v("fc2", fc2);
}

RepMixerBlock::RepMixerBlock(std::int64_t width, std::int64_t size)
    : token_mixer(width, size),
      convffn{.conv = TextConvBN(width, size),
              .fc1 = PointwiseConvBN(width, TextEncoderConfig::kMlpRatio * width, true),
              .fc2 = PointwiseConvBN(TextEncoderConfig::kMlpRatio * width, width, true)} {}

void RepMixerBlock::visit(ParamVisitor& v) {
  const std::int64_t width = token_mixer.conv.channels;
  v("layer_scale", layer_scale, {width, 1, 1});
  v("token_mixer", token_mixer);
  v("convffn", convffn);
}

void RepMixerBlock::fold() {
  Tensor &weight = convffn.fc2.weight, &bias = convffn.fc2.bias;
  const std::int64_t width = bias.shape()[0], inner = weight.shape()[1];
  for (std::int64_t c = 0; c < width; ++c) {
    const float scale = layer_scale.data()[c];
    float* const row = weight.data() + c * inner;
    std::transform(row, row + inner, row, [scale](float number) { return number * scale; });
    bias.data()[c] *= scale;
  }
  convffn.conv.weight = map_kernel(convffn.conv.weight);
  layer_scale = Tensor();
}

void RepMixerBlock::forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View mixed = ctx.workspace.floats(x.shape), input = ctx.workspace.floats(x.shape);
  convolve(ctx, x, token_mixer.conv, mixed);
  convolve(ctx, mixed, convffn.conv, input);
  const View hidden = convffn.fc1.forward(ctx, input, Activation::kGelu);
  convffn.fc2.forward_add(ctx, hidden, mixed, x);
  ctx.record(path, x);
}

// ---------------------------------------------------------------- TransformerEncoder

void MultiHeadAttention::visit(ParamVisitor& v) {
  v("qkv_proj", qkv_proj);
  v("out_proj", out_proj);
}

void MultiHeadAttention::forward_add_(Context& ctx, ConstView input, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t width = out_proj.in_features, head_dim = width / num_heads;
  const View qkv = qkv_proj.forward(ctx, input);
  const View merged = ctx.workspace.floats(input.shape);
  const auto part = [&](std::int64_t third) {
    return AttentionRows{qkv.data + third * width, 3 * width};
  };
  attention(ctx,
            {.num_heads = num_heads,
             .head_dim = head_dim,
             .value_dim = head_dim,
             .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
             .query = part(0),
             .key = part(1),
             .value = part(2),
             .num_queries = input.shape[1],
             .num_keys = input.shape[1],
             .batch = input.shape[0]},
            merged);
  out_proj.forward_add(ctx, merged, x, x);
}

TransformerEncoder::TransformerEncoder(std::int64_t width, std::int64_t heads)
    : attn_norm(width, 1e-5F),
      ffn_norm(width, 1e-5F),
      attn{.num_heads = heads,
           .qkv_proj = Linear(width, 3 * width),
           .out_proj = Linear(width, width)},
      fc1(width, TextEncoderConfig::kMlpRatio * width),
      fc2(TextEncoderConfig::kMlpRatio * width, width) {}

void TransformerEncoder::visit(ParamVisitor& v) {
  v("pre_norm_mha.0", attn_norm);
  v("pre_norm_mha.1", attn);
  v("pre_norm_ffn.0", ffn_norm);
  v("pre_norm_ffn.1", fc1);
  v("pre_norm_ffn.4", fc2);
}

void TransformerEncoder::forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  attn.forward_add_(ctx, attn_norm.forward(ctx, x), x);
  mlp_add_(ctx, fc1, Activation::kGelu, fc2, ffn_norm.forward(ctx, x), x);
  ctx.record(path, x);
}

// ---------------------------------------------------------------- MobileClipTextTransformer

MobileClipTextTransformer::MobileClipTextTransformer(const TextEncoderConfig& sizes)
    : config(sizes), final_layer_norm(sizes.width, 1e-5F) {
  std::int64_t plain = config.layers;
  if (config.repmixer_size > 0) {
    first.emplace(config.width, config.repmixer_size);
    last.emplace(config.width, config.repmixer_size);
    plain -= 2;
  }
  for (std::int64_t i = 0; i < plain; ++i) layers.emplace_back(config.width, config.heads);
}

void MobileClipTextTransformer::visit(ParamVisitor& v) {
  v.matrix("embedding_layer.weight", token_embedding, token_blocks,
           {config.vocab_size, config.width});
  v("positional_embedding.pos_embed.pos_embed", positional_embedding,
    {1, 1, config.context_length, config.width});
  std::int64_t index = 0;
  const auto next = [&](auto& layer) {
    v(("transformer." + std::to_string(index++)).c_str(), layer);
  };
  if (first) next(*first);
  for (TransformerEncoder& layer : layers) next(layer);
  if (last) next(*last);
  v("final_layer_norm", final_layer_norm);
}

View MobileClipTextTransformer::forward(Context& ctx, const TokenIds& ids) const {
  const std::int64_t length = config.context_length;
  const View x = ctx.workspace.floats({ids.count, length, config.width});
  {
    const Workspace::Scope scratch(ctx.workspace);
    auto* const padded = ctx.workspace.array<std::int64_t>(length);
    for (std::int64_t i = 0; i < ids.count; ++i) {
      std::fill(std::copy_n(ids.text(i), ids.length, padded), padded + length, 0);
      const View text{x.data + i * length * config.width, {length, config.width}};
      if (token_blocks) {
        embedding(ctx, token_blocks, padded, text);
      } else {
        embedding(ctx, token_embedding, padded, text);
      }
      add_(ctx, text, {positional_embedding.data(), text.shape});
    }
  }
  if (first) first->forward_(ctx, x);
  for (const TransformerEncoder& layer : layers) {
    layer.forward_(ctx, x);
    ctx.check_interrupt();
  }
  if (last) last->forward_(ctx, x);
  final_layer_norm.forward_(ctx, x);
  return x;
}

}  // namespace sam_rlx::sam3
