#include "models/sam/mask_decoder.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/mask_upscaling.h"

namespace sam_rlx::sam {
namespace {

// map (H, W, C) -> out (W, H, C)
void swap_sides(ConstView map, View out) {
  const std::int64_t height = map.shape[0], width = map.shape[1], channels = map.shape[2];
  for (std::int64_t i = 0; i < height * width; ++i) {
    const std::int64_t to = i % width * height + i / width;
    std::copy_n(map.data + i * channels, channels, out.data + to * channels);
  }
}

}  // namespace

void OutputUpscaling::visit(ParamVisitor& v) {
  const std::int64_t c = in_channels;
  v("0.weight", conv1_weight, {c, c / 4, 2, 2});
  v("0.bias", conv1_bias, {c / 4});
  v("1", norm);
  v("3.weight", conv2_weight, {c / 4, c / 8, 2, 2});
  v("3.bias", conv2_bias, {c / 8});
}

void OutputUpscaling::pack(const KernelTable& kernels) {
  conv1_weight = fold_conv_transpose2x2(kernels, conv1_weight);
  conv1_bias = repeat_bias2x2(conv1_bias);
  conv2_weight = fold_conv_transpose2x2(kernels, conv2_weight);
  conv2_bias = repeat_bias2x2(conv2_bias);
}

MaskUpscalingArgs OutputUpscaling::of(ConstView map, ConstView hyper) const {
  return {.map = map,
          .weight1 = conv1_weight,
          .bias1 = conv1_bias,
          .norm_weight = norm.weight,
          .norm_bias = norm.bias,
          .norm_eps = norm.eps,
          .weight2 = conv2_weight,
          .bias2 = conv2_bias,
          .hyper = hyper};
}

void share_features(Context& ctx, const PromptEncoder& prompt_encoder,
                    const TwoWayTransformer& transformer, ConstView image_embedding,
                    SharedFeatures& out) {
  if (out.embedding.shape() != image_embedding.shape) out.embedding = Tensor(image_embedding.shape);
  copy_(ctx, out.embedding, image_embedding);
  add_(ctx, out.embedding, prompt_encoder.no_mask_embed.weight);
  transformer.project_map(ctx, out.embedding, prompt_encoder.dense_pe, out.projected);
}

MaskDecoder::MaskDecoder(const MaskDecoderConfig& sizes)
    : config(sizes), transformer(sizes.transformer) {
  const std::int64_t channels = config.transformer.embedding_dim;
  iou_token.embed_dim = channels;
  mask_tokens.rows = config.num_mask_tokens();
  mask_tokens.embed_dim = channels;
  output_upscaling.in_channels = channels;
  output_upscaling.norm = LayerNorm(channels / 4, 1e-6F);
  for (std::int64_t i = 0; i < config.num_mask_tokens(); ++i) {
    output_hypernetworks_mlps.emplace_back(channels, channels, channels / 8, 3);
  }
  iou_prediction_head =
      MLP(channels, config.iou_head_hidden_dim, config.num_mask_tokens(), config.iou_head_depth);
  if (config.hq) hq.emplace(*config.hq, channels);
}

void MaskDecoder::visit(ParamVisitor& v) {
  v("transformer", transformer);
  v("iou_token", iou_token);
  v("mask_tokens", mask_tokens);
  v("output_upscaling", output_upscaling);
  v("output_hypernetworks_mlps", output_hypernetworks_mlps);
  v("iou_prediction_head", iou_prediction_head);
  if (hq) v("", *hq);
}

MaskDecoder::Decoded MaskDecoder::decode(Context& ctx, const Inputs& in, Masks wanted) const {
  const std::int64_t masks = config.num_mask_tokens();
  const std::int64_t channels = config.transformer.embedding_dim;
  const std::int64_t outputs = num_output_tokens();
  const std::int64_t count = outputs + in.sparse.shape[0];
  const Decoded out{wanted, ctx.workspace.floats({1 + wanted.count, channels}),
                    ctx.workspace.floats(in.map.shape), ctx.workspace.floats({masks})};
  const Workspace::Scope scratch(ctx.workspace);

  // Tokens: IoU, masks, SAM-HQ's, prompt.
  const View tokens = ctx.workspace.floats({count, channels});
  copy_(ctx, {tokens.data, Shape{1, channels}}, iou_token.weight);
  copy_(ctx, {tokens.data + channels, Shape{masks, channels}}, mask_tokens.weight);
  if (hq) copy_(ctx, tokens[outputs - 1], hq->hf_token.weight);
  copy_(ctx, {tokens.data + outputs * channels, in.sparse.shape}, in.sparse);

  const Shape positions{in.map.shape[0] * in.map.shape[1], channels};
  transformer.forward_(ctx,
                       {in.map.reshape(positions), in.image_pe.reshape(positions), tokens,
                        in.projected, wanted.first},
                       out.tokens, out.map.reshape(positions));
  if (config.swapped_map) swap_sides(in.map, out.map);

  const View iou = iou_prediction_head.forward(ctx, ConstView(out.tokens.data, {1, channels}));
  copy_(ctx, out.iou_predictions, iou);
  ctx.record(path + ".iou_prediction_head", iou);
  return out;
}

void MaskDecoder::predict_masks(Context& ctx, const Decoded& decoded, std::int64_t first,
                                View masks) const {
  upscale(ctx, decoded, first, masks, {});
  ctx.record(path + ".low_res_masks", masks);
}

std::int64_t MaskDecoder::best_multimask(const Decoded& decoded) const {
  const float* const iou = decoded.iou_predictions.data;
  return std::max_element(iou + 1, iou + config.num_mask_tokens()) - iou;
}

void MaskDecoder::predict_hq_mask(Context& ctx, const Decoded& decoded, ConstView hq_features,
                                  std::optional<std::int64_t> added, View mask) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View upscaled = ctx.workspace.floats(hq_features.shape);
  const View masks = mask.reshape({1, mask.shape[0], mask.shape[1]});
  const View none{mask.data, {0, mask.shape[0], mask.shape[1]}};
  upscale(ctx, decoded, added.value_or(0), added ? masks : none, upscaled);
  hq->predict_mask(ctx,
                   {.token = decoded.tokens[decoded.tokens.shape[0] - 1],
                    .upscaled = upscaled,
                    .hq_features = hq_features,
                    .adds = added.has_value()},
                   mask);
  ctx.record(path + ".low_res_masks", masks);
}

void MaskDecoder::upscale(Context& ctx, const Decoded& decoded, std::int64_t first, View masks,
                          View upscaled) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t channels = config.transformer.embedding_dim;
  const std::int64_t count = masks.shape[0];
  const View hyper = ctx.workspace.floats({count, channels / 8});
  for (std::int64_t i = 0; i < count; ++i) {
    const Workspace::Scope inner(ctx.workspace);
    const ConstView token = decoded.tokens[1 + first - decoded.masks.first + i];
    const MLP& mlp = output_hypernetworks_mlps[static_cast<std::size_t>(first + i)];
    copy_(ctx, hyper[i], mlp.forward(ctx, token.reshape({1, channels})));
  }
  MaskUpscalingArgs args = output_upscaling.of(decoded.map, hyper);
  args.upscaled = upscaled;
  upscale_masks(ctx, args, masks);
}

}  // namespace sam_rlx::sam
