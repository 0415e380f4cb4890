#include "models/sam3/multiplex_mask_decoder.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/mask_upscaling.h"

namespace sam_rlx::sam3 {

MultiplexMaskDecoder::MultiplexMaskDecoder(const MultiplexMaskDecoderConfig& sizes,
                                           std::int64_t slots)
    : config(sizes), multiplex_count(slots), transformer(sizes.transformer) {
  const std::int64_t channels = config.transformer.embedding_dim;
  const std::int64_t masks = config.num_multimask_outputs;
  for (sam::TokenEmbedding* const token : {&iou_token, &mask_tokens, &obj_score_token}) {
    token->rows = token == &mask_tokens ? slots * masks : slots;
    token->embed_dim = channels;
  }
  output_upscaling.in_channels = channels;
  output_upscaling.norm = LayerNorm(channels / 4, 1e-6F);
  conv_s0 = Conv2d(channels, channels / 8, kConv1x1);
  conv_s1 = Conv2d(channels, channels / 4, kConv1x1);
  for (std::int64_t i = 0; i < masks; ++i) {
    output_hypernetworks_mlps.emplace_back(channels, channels, channels / 8, 3);
  }
  iou_prediction_head = MLP(channels, config.iou_head_hidden_dim, masks, config.iou_head_depth);
  pred_obj_score_head = MLP(channels, channels, 1, 3);
}

void MultiplexMaskDecoder::visit(ParamVisitor& v) {
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
}

MultiplexMaskDecoder::Decoded MultiplexMaskDecoder::decode(Context& ctx, const Inputs& in) const {
  const std::int64_t slots = multiplex_count, masks = config.num_multimask_outputs;
  const std::int64_t channels = config.transformer.embedding_dim, first_mask = 2 * slots;
  const std::int64_t count = first_mask + slots * masks;
  Decoded out{.tokens = ctx.workspace.floats({count, channels}),
              .map = ctx.workspace.floats(in.map.shape),
              .iou_predictions = ctx.workspace.floats({slots, masks}),
              .object_score_logits = ctx.workspace.floats({slots, 1})};
  const Workspace::Scope scratch(ctx.workspace);
  const View tokens = ctx.workspace.floats(out.tokens.shape);
  const auto rows = [&](View of, std::int64_t first, std::int64_t number) {
    return View(of.data + first * channels, {number, channels});
  };
  copy_(ctx, rows(tokens, 0, slots), obj_score_token.weight);
  copy_(ctx, rows(tokens, slots, slots), iou_token.weight);
  copy_(ctx, rows(tokens, first_mask, slots * masks), mask_tokens.weight);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    add_(ctx, rows(tokens, first_mask + slot * masks, masks), in.slot_embed[slot]);
  }

  const Shape positions{in.map.shape[0] * in.map.shape[1], channels};
  transformer.forward_(ctx, {in.map.reshape(positions), in.image_pe.reshape(positions), tokens},
                       out.tokens, out.map.reshape(positions));
  copy_(ctx, out.iou_predictions, iou_prediction_head.forward(ctx, rows(out.tokens, slots, slots)));
  copy_(ctx, out.object_score_logits, pred_obj_score_head.forward(ctx, rows(out.tokens, 0, slots)));
  ctx.record(path + ".iou_prediction_head", out.iou_predictions);
  ctx.record(path + ".pred_obj_score_head", out.object_score_logits);
  return out;
}

MultiplexMaskDecoder::Choice MultiplexMaskDecoder::best(const Decoded& decoded,
                                                        std::int64_t slot) const {
  const ConstView iou = decoded.iou_predictions[slot];
  return {slot, std::max_element(iou.data, iou.data + iou.numel()) - iou.data};
}

ConstView MultiplexMaskDecoder::mask_token(const Decoded& decoded, const Choice& choice) const {
  return decoded
      .tokens[2 * multiplex_count + choice.slot * config.num_multimask_outputs + choice.mask];
}

void MultiplexMaskDecoder::predict_masks(Context& ctx, const Decoded& decoded,
                                         const sam2::HighResFeatures& high_res,
                                         std::span<const Choice> choices, View masks) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t channels = config.transformer.embedding_dim;
  const View hyper = ctx.workspace.floats({masks.shape[0], channels / 8});
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Workspace::Scope inner(ctx.workspace);
    const MLP& mlp = output_hypernetworks_mlps[static_cast<std::size_t>(choices[i].mask)];
    const ConstView token = mask_token(decoded, choices[i]).reshape({1, channels});
    copy_(ctx, hyper[static_cast<std::int64_t>(i)], mlp.forward(ctx, token));
  }
  MaskUpscalingArgs args = output_upscaling.of(decoded.map, hyper);
  args.skip1 = high_res.s1;
  args.skip0 = high_res.s0;
  upscale_masks(ctx, args, masks);
  ctx.record(path + ".low_res_masks", masks);
}

}  // namespace sam_rlx::sam3
