#include "models/sam/hq_head.h"

#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/weighted_conv.h"

namespace sam_rlx::sam {

// ---------------------------------------------------------------- of an image

HqUpscaling::HqUpscaling(std::int64_t in, std::int64_t hidden, std::int64_t out)
    : conv1(in, hidden), norm(hidden, 1e-6F), conv2(hidden, out) {}

void HqUpscaling::visit(ParamVisitor& v) {
  v("0", conv1);
  v("1", norm);
  v("3", conv2);
}

void HqUpscaling::forward(Context& ctx, ConstView x, bool adds, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View hidden = conv1.forward(ctx, x);
  norm.forward_(ctx, hidden);
  activation_(ctx, Activation::kGelu, hidden);
  const View upscaled = conv2.forward(ctx, hidden);
  ctx.record(path, upscaled);
  adds ? add_(ctx, out, upscaled) : copy_(ctx, out, upscaled);
}

// ---------------------------------------------------------------- of a prompt

HqMaskFeature::HqMaskFeature(std::int64_t count)
    : conv1(count, 2 * count, kConv3x3), norm(2 * count, 1e-6F), channels(count) {}

void HqMaskFeature::visit(ParamVisitor& v) {
  v("0", conv1);
  v("1", norm);
  v("3.weight", conv2_weight, {channels, 2 * channels, 3, 3});
  v("3.bias", conv2_bias, {channels});
}

View HqMaskFeature::forward_first(Context& ctx, ConstView x) const {
  const std::int64_t height = x.shape[0], width = x.shape[1];
  const View map = conv1.forward(ctx, x.reshape({1, height, width, channels}));
  norm.forward_(ctx, map);
  activation_(ctx, Activation::kGelu, map);
  ctx.record(path + ".2", map);
  return map[0];
}

HqToken::HqToken(std::int64_t channels)
    : hf_mlp(channels, channels, channels / 8, 3), embedding_maskfeature(channels / 8) {
  hf_token.embed_dim = channels;
}

void HqToken::visit(ParamVisitor& v) {
  v("hf_token", hf_token);
  v("hf_mlp", hf_mlp);
  v("embedding_maskfeature", embedding_maskfeature);
}

void HqToken::predict_mask(Context& ctx, const Inputs& in, View mask) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View weights = hf_mlp.forward(ctx, in.token.reshape({1, in.token.numel()}));
  ctx.record(hf_mlp.path, weights);
  const View map = embedding_maskfeature.forward_first(ctx, in.upscaled);
  weighted_conv3x3(ctx,
                   {.map = map,
                    .weight = embedding_maskfeature.conv2_weight,
                    .bias = embedding_maskfeature.conv2_bias,
                    .weights = weights[0],
                    .beside = in.hq_features,
                    .adds = in.adds},
                   mask);
}

// ---------------------------------------------------------------- SAM-HQ

HqHead::HqHead(const HqConfig& config, std::int64_t channels)
    : HqToken(channels),
      compress_vit_feat(config.vit_dim, channels, channels / 8),
      embedding_encoder(channels, channels / 4, channels / 8) {}

void HqHead::visit(ParamVisitor& v) {
  HqToken::visit(v);
  v("compress_vit_feat", compress_vit_feat);
  v("embedding_encoder", embedding_encoder);
}

void HqHead::image_features(Context& ctx, ConstView embedding, ConstView early,
                            View hq_features) const {
  const Shape& map = hq_features.shape;
  const View out = hq_features.reshape({1, map[0], map[1], map[2]});
  embedding_encoder.forward(ctx, embedding, false, out);
  if (early) compress_vit_feat.forward(ctx, early, true, out);
}

}  // namespace sam_rlx::sam
