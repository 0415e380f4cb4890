#include "models/sam/prompt_encoder.h"

#include <algorithm>
#include <cmath>

namespace sam_rlx::sam {
namespace {

constexpr std::int32_t kPaddingLabel = -10;

}  // namespace

// ---------------------------------------------------------------- PositionEmbeddingRandom

void PositionEmbeddingRandom::visit(ParamVisitor& v) {
  v("positional_encoding_gaussian_matrix", positional_encoding_gaussian_matrix, {2, num_pos_feats});
}

void PositionEmbeddingRandom::encode(float x, float y, float* out) const {
  constexpr float kTwoPi = 6.283185307179586F;
  const float* const matrix = positional_encoding_gaussian_matrix.data();
  const float cx = 2.0F * x - 1.0F;
  const float cy = 2.0F * y - 1.0F;
  for (std::int64_t f = 0; f < num_pos_feats; ++f) {
    const float angle = kTwoPi * (cx * matrix[f] + cy * matrix[num_pos_feats + f]);
    out[f] = std::sin(angle);
    out[num_pos_feats + f] = std::cos(angle);
  }
}

Tensor PositionEmbeddingRandom::dense(std::int64_t height, std::int64_t width) const {
  Tensor out({1, height, width, 2 * num_pos_feats});
  float* row = out.data();
  for (std::int64_t i = 0; i < height; ++i) {
    const float y = (static_cast<float>(i) + 0.5F) / static_cast<float>(height);
    for (std::int64_t j = 0; j < width; ++j, row += 2 * num_pos_feats) {
      encode((static_cast<float>(j) + 0.5F) / static_cast<float>(width), y, row);
    }
  }
  return out;
}

// ---------------------------------------------------------------- MaskDownscaling

void MaskDownscaling::visit(ParamVisitor& v) {
  v("0", conv1);
  v("1", norm1);
  v("3", conv2);
  v("4", norm2);
  v("6", conv3);
}

View MaskDownscaling::forward(Context& ctx, ConstView mask) const {
  const Shape& in = mask.shape;
  const View out = ctx.workspace.floats({in[0], in[1] / 4, in[2] / 4, conv3.out_channels});
  const Workspace::Scope scratch(ctx.workspace);
  const View x = conv1.forward(ctx, mask);
  norm1.forward_(ctx, x);
  activation_(ctx, Activation::kGelu, x);
  const View y = conv2.forward(ctx, x);
  norm2.forward_(ctx, y);
  activation_(ctx, Activation::kGelu, y);
  conv3.forward(ctx, y, {}, out);
  return out;
}

// ---------------------------------------------------------------- PromptEncoder

PromptEncoder::PromptEncoder(const PromptEncoderConfig& sizes) : config(sizes) {
  pe_layer.num_pos_feats = config.embed_dim / 2;
  point_embeddings.resize(4);
  for (TokenEmbedding& embedding : point_embeddings) embedding.embed_dim = config.embed_dim;
  not_a_point_embed.embed_dim = config.embed_dim;
  no_mask_embed.embed_dim = config.embed_dim;
  const std::int64_t chans = config.mask_in_chans;
  mask_downscaling.conv1 = Conv2d(1, chans / 4, conv_patches(2));
  const auto eps = static_cast<float>(config.layer_norm_eps);
  mask_downscaling.norm1 = LayerNorm(chans / 4, eps);
  mask_downscaling.conv2 = Conv2d(chans / 4, chans, conv_patches(2));
  mask_downscaling.norm2 = LayerNorm(chans, eps);
  mask_downscaling.conv3 = Conv2d(chans, config.embed_dim, kConv1x1);
}

void PromptEncoder::visit(ParamVisitor& v) {
  v("pe_layer", pe_layer);
  v("point_embeddings", point_embeddings);
  v("not_a_point_embed", not_a_point_embed);
  v("mask_downscaling", mask_downscaling);
  v("no_mask_embed", no_mask_embed);
}

void PromptEncoder::fold() {
  dense_pe = pe_layer.dense(config.image_embedding_size, config.image_embedding_size);
}

std::int64_t PromptEncoder::num_tokens(const Prompt& prompt) {
  const std::int64_t padding = prompt.pads() ? 1 : 0;
  return prompt.num_points + padding + (prompt.box == nullptr ? 0 : 2);
}

// Position of the point plus the embedding of its kind; no kind: position alone.
void PromptEncoder::embed_point(double x, double y, const TokenEmbedding* kind, float* out) const {
  const double side = static_cast<double>(config.input_image_size);
  pe_layer.encode(static_cast<float>(x / side), static_cast<float>(y / side), out);
  if (kind == nullptr) return;
  for (std::int64_t c = 0; c < config.embed_dim; ++c) out[c] += kind->weight.data()[c];
}

void PromptEncoder::embed_tokens(const Prompt& prompt, View out) const {
  const std::int64_t channels = config.embed_dim;
  const float* const not_a_point = not_a_point_embed.weight.data();
  float* row = out.data;
  for (std::int64_t i = 0; i < prompt.num_points; ++i, row += channels) {
    const std::int32_t label = prompt.labels[i];
    if (label == -1) {
      std::copy(not_a_point, not_a_point + channels, row);
      continue;
    }
    if (label == kPaddingLabel && config.padding_label) {
      std::fill_n(row, channels, 0.0F);
      continue;
    }
    const bool known = label >= 0 && label <= (config.corner_labels ? 3 : 1);
    const TokenEmbedding* const kind =
        known ? &point_embeddings[static_cast<std::size_t>(label)] : nullptr;
    embed_point(prompt.points[2 * i], prompt.points[2 * i + 1], kind, row);
  }
  if (prompt.box != nullptr) {
    embed_point(prompt.box[0], prompt.box[1], &point_embeddings[2], row);
    embed_point(prompt.box[2], prompt.box[3], &point_embeddings[3], row + channels);
  } else if (prompt.pads()) {
    std::copy(not_a_point, not_a_point + channels, row);
  }
}

View PromptEncoder::embed_mask(Context& ctx, ConstView mask) const {
  const std::int64_t side = config.mask_input_size();
  return mask_downscaling.forward(ctx, mask.reshape({1, side, side, 1}));
}

}  // namespace sam_rlx::sam
