#include "models/sam2/mask_decoder.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/mask_upscaling.h"

namespace sam_rlx::sam2 {

MaskDecoder::MaskDecoder(const MaskDecoderConfig& sizes)
    : config(sizes), transformer(sizes.transformer) {
  const std::int64_t channels = config.transformer.embedding_dim;
  iou_token.embed_dim = channels;
  mask_tokens.rows = config.num_mask_tokens();
  mask_tokens.embed_dim = channels;
  obj_score_token.embed_dim = channels;
  output_upscaling.in_channels = channels;
  output_upscaling.norm = LayerNorm(channels / 4, 1e-6F);
  conv_s0 = Conv2d(channels, channels / 8, kConv1x1);
  conv_s1 = Conv2d(channels, channels / 4, kConv1x1);
  for (std::int64_t i = 0; i < config.num_mask_tokens(); ++i) {
    output_hypernetworks_mlps.emplace_back(channels, channels, channels / 8, 3);
  }
  iou_prediction_head =
      MLP(channels, config.iou_head_hidden_dim, config.num_mask_tokens(), config.iou_head_depth);
  pred_obj_score_head = MLP(channels, channels, 1, config.pred_obj_scores_mlp ? 3 : 1);
  if (config.hq) hq.emplace(channels);
}

void MaskDecoder::visit(ParamVisitor& v) {
  v("transformer", transformer);
  v("iou_token", iou_token);
  v("mask_tokens", mask_tokens);
  v("obj_score_token", obj_score_token);
  v("output_upscaling", output_upscaling);
  v("conv_s0", conv_s0);
  v("conv_s1", conv_s1);
  v("output_hypernetworks_mlps", output_hypernetworks_mlps);
  v("iou_prediction_head", iou_prediction_head);
  v("pred_obj_score_head", pred_obj_score_head);
  if (hq) v("", *hq);
}

void MaskDecoder::adopt_high_res(Context& ctx, ConstView s0, ConstView s1, HighResFeatures& out) {
  const auto lay_out = [&](ConstView map, std::int64_t factor, Tensor& target) {
    const Shape shape{map.shape[0] / factor, factor * factor * map.shape[2], map.shape[1] / factor};
    if (target.shape() != shape) target = Tensor(shape);
    split_positions(ctx, map, target);
  };
  lay_out(s0, 4, out.s0);
  lay_out(s1, 2, out.s1);
}

MaskDecoder::Decoded MaskDecoder::decode(Context& ctx, const sam::MaskDecoder::Inputs& in) const {
  const std::int64_t masks = config.num_mask_tokens();
  const std::int64_t channels = config.transformer.embedding_dim;
  const std::int64_t outputs = num_output_tokens(), count = outputs + in.sparse.shape[0];
  Decoded out{ctx.workspace.floats({outputs, channels}), ctx.workspace.floats(in.map.shape),
              ctx.workspace.floats({masks})};
  const Workspace::Scope scratch(ctx.workspace);

  // Tokens: object score, IoU, masks, HQ-SAM 2's, prompt.
  const View tokens = ctx.workspace.floats({count, channels});
  copy_(ctx, {tokens.data, Shape{1, channels}}, obj_score_token.weight);
  copy_(ctx, {tokens.data + channels, Shape{1, channels}}, iou_token.weight);
  copy_(ctx, {tokens.data + 2 * channels, Shape{masks, channels}}, mask_tokens.weight);
  if (hq) copy_(ctx, tokens[outputs - 1], hq->hf_token.weight);
  copy_(ctx, {tokens.data + outputs * channels, in.sparse.shape}, in.sparse);

  const Shape positions{in.map.shape[0] * in.map.shape[1], channels};
  transformer.forward_(
      ctx, {in.map.reshape(positions), in.image_pe.reshape(positions), tokens, in.projected},
      out.tokens, out.map.reshape(positions));

  const Shape row{1, channels};
  const View iou = iou_prediction_head.forward(ctx, out.tokens[1].reshape(row));
  if (config.iou_prediction_use_sigmoid) {
    std::transform(iou.data, iou.data + masks, out.iou_predictions.data,
                   [](float logit) { return 1.0F / (1.0F + std::exp(-logit)); });
  } else {
    copy_(ctx, out.iou_predictions, iou.reshape({masks}));
  }
  ctx.record(path + ".iou_prediction_head", out.iou_predictions);
  const View score = pred_obj_score_head.forward(ctx, out.tokens[0].reshape(row));
  ctx.record(path + ".pred_obj_score_head", score);
  out.object_score_logit = score.data[0];
  return out;
}

void MaskDecoder::predict_masks(Context& ctx, const Decoded& decoded,
                                const HighResFeatures& high_res, std::int64_t first,
                                View masks) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View upscaled = upscaled_for_hq(ctx, decoded);
  upscale(ctx, decoded, high_res, first, masks, upscaled);
  if (hq) {
    const View on_top = ctx.workspace.floats({masks.shape[1], masks.shape[2]});
    hq_mask(ctx, decoded, upscaled, false, on_top);
    for (std::int64_t i = 0; i < masks.shape[0]; ++i) add_(ctx, masks[i], on_top);
  }
  ctx.record(path + ".low_res_masks", masks);
}

void MaskDecoder::predict_hq_mask(Context& ctx, const Decoded& decoded,
                                  const HighResFeatures& high_res, View mask) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View upscaled = upscaled_for_hq(ctx, decoded);
  upscale(ctx, decoded, high_res, 0, {mask.data, {0, mask.shape[0], mask.shape[1]}}, upscaled);
  hq_mask(ctx, decoded, upscaled, false, mask);
  ctx.record(path + ".low_res_masks", mask.reshape({1, mask.shape[0], mask.shape[1]}));
}

View MaskDecoder::upscaled_for_hq(Context& ctx, const Decoded& decoded) const {
  if (!hq) return {};
  const Shape& map = decoded.map.shape;
  return ctx.workspace.floats({4 * map[0], 4 * map[1], map[2] / 8});
}

void MaskDecoder::hq_mask(Context& ctx, const Decoded& decoded, ConstView upscaled, bool adds,
                          View mask) const {
  const ConstView token = decoded.tokens[num_output_tokens() - 1];
  hq->predict_mask(ctx, {.token = token, .upscaled = upscaled, .adds = adds}, mask);
}

void MaskDecoder::upscale(Context& ctx, const Decoded& decoded, const HighResFeatures& high_res,
                          std::int64_t first, View masks, View upscaled) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t channels = config.transformer.embedding_dim;
  const std::int64_t count = masks.shape[0];
  const View hyper = ctx.workspace.floats({count, channels / 8});
  for (std::int64_t i = 0; i < count; ++i) {
    const Workspace::Scope inner(ctx.workspace);
    const MLP& mlp = output_hypernetworks_mlps[static_cast<std::size_t>(first + i)];
    copy_(ctx, hyper[i], mlp.forward(ctx, decoded.mask_token(first + i).reshape({1, channels})));
  }
  MaskUpscalingArgs args = output_upscaling.of(decoded.map, hyper);
  args.skip1 = high_res.s1;
  args.skip0 = high_res.s0;
  args.upscaled = upscaled;
  upscale_masks(ctx, args, masks);
}

std::int64_t MaskDecoder::predict_single_mask(Context& ctx, const Decoded& decoded,
                                              const HighResFeatures& high_res, View mask,
                                              bool hq_token_only) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View one = mask.reshape({1, mask.shape[0], mask.shape[1]});
  const View upscaled = upscaled_for_hq(ctx, decoded);
  upscale(ctx, decoded, high_res, 0, one, upscaled);
  std::int64_t chosen = 0;
  if (config.dynamic_multimask_via_stability &&
      stability_score(mask, config.dynamic_multimask_stability_delta) <
          config.dynamic_multimask_stability_thresh) {
    chosen = best_multimask(decoded);
    if (!hq_token_only) upscale(ctx, decoded, high_res, chosen, one, {});
  }
  if (hq) hq_mask(ctx, decoded, upscaled, !hq_token_only, mask);
  ctx.record(path + ".low_res_masks", one);
  return chosen;
}

std::int64_t MaskDecoder::best_multimask(const Decoded& decoded) const {
  const float* const iou = decoded.iou_predictions.data;
  return std::max_element(iou + 1, iou + config.num_mask_tokens()) - iou;
}

float stability_score(ConstView logits, float delta) {
  std::int64_t inner = 0, outer = 0;
  for (std::int64_t i = 0; i < logits.numel(); ++i) {
    inner += logits.data[i] > delta ? 1 : 0;
    outer += logits.data[i] > -delta ? 1 : 0;
  }
  return outer > 0 ? static_cast<float>(inner) / static_cast<float>(outer) : 1.0F;
}

}  // namespace sam_rlx::sam2
