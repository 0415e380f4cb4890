#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/elementwise.h"
#include "predictors/image/image_state.h"
#include "predictors/image/tensor_predictor.h"

namespace sam_rlx {
namespace {

// Upstream: transformers, SamModel and SamHQModel.
class SamTensorPredictor final : public TensorPredictor {
 public:
  SamTensorPredictor(std::shared_ptr<const Model> model, int num_threads)
      : TensorPredictor(std::move(model), num_threads) {}

  std::vector<Shape> map_shapes(bool all_maps) const override;

 private:
  const sam::Sam& sam() const { return model().sam(); }
  const sam::PromptEncoder& prompt_encoder() const override { return sam().prompt_encoder; }
  std::int64_t num_multimask_outputs() const override {
    return sam().config.mask_decoder.num_multimask_outputs;
  }
  bool has_hq_token() const override { return sam().mask_decoder.hq.has_value(); }
  void encode_image(Context& ctx, ConstView image, const TensorEncoding& encoding,
                    std::span<const View> maps) const override;
  void adopt(Context& ctx, std::span<const ConstView> maps, ConstView mask) override;
  void decode_set(Context& ctx, const sam::Prompt& prompt, const TensorJob& job,
                  const SetOutputs& out) const override;
  void decode_hq(Context& ctx, const sam::MaskDecoder::Inputs& in, const TensorJob& job,
                 const SetOutputs& out) const;
  // Maps that SAM-HQ takes from inside the trunk: those behind blocks with global attention.
  std::int64_t num_early(bool all_maps) const;

  sam::SharedFeatures shared_;
};

// ---------------------------------------------------------------- the image

std::int64_t SamTensorPredictor::num_early(bool all_maps) const {
  if (!has_hq_token()) return 0;
  const sam::ImageEncoderConfig& sizes = sam().config.image_encoder;
  if (!all_maps || sizes.tiny_vit) return 1;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < sizes.depth; ++i) count += sizes.is_global(i) ? 1 : 0;
  return count;
}

std::vector<Shape> SamTensorPredictor::map_shapes(bool all_maps) const {
  const sam::ImageEncoderConfig& sizes = sam().config.image_encoder;
  const std::int64_t g = sizes.grid();
  std::vector<Shape> shapes{{sizes.out_chans, g, g}};
  for (std::int64_t i = 0; i < num_early(all_maps); ++i) {
    shapes.push_back({g, g, sizes.early_dim()});
  }
  return shapes;
}

void SamTensorPredictor::encode_image(Context& ctx, ConstView image,
                                      const TensorEncoding& /*encoding*/,
                                      std::span<const View> maps) const {
  std::vector<View> early;
  for (const View& map : maps.subspan(1)) {
    early.push_back(map.reshape({1, map.shape[0], map.shape[1], map.shape[2]}));
  }
  const View embedding = sam().forward_trunk(ctx, image, early);
  const std::int64_t c = maps[0].shape[0], positions = maps[0].shape[1] * maps[0].shape[2];
  transpose(ctx, embedding.reshape({positions, c}), maps[0].reshape({c, positions}));
}

void SamTensorPredictor::adopt(Context& ctx, std::span<const ConstView> maps, ConstView mask) {
  const Workspace::Scope scratch(ctx.workspace);
  const Shape& shape = maps[0].shape;
  const std::int64_t g = shape[1], c = shape[0];
  const View embedding = ctx.workspace.floats({g, g, c});
  transpose(ctx, maps[0].reshape({c, g * g}), embedding.reshape({g * g, c}));
  share(ctx, sam().mask_decoder.transformer, embedding, mask, shared_);
  if (!has_hq_token()) return;
  const Shape fine{4 * g, 4 * g, c / 8};
  if (shared_.hq_features.shape() != fine) shared_.hq_features = Tensor(fine);
  const ConstView early =
      maps.size() < 2 ? ConstView{} : maps[1].reshape({1, g, g, maps[1].shape[2]});
  sam().mask_decoder.hq->image_features(ctx, embedding.reshape({1, g, g, c}), early,
                                        shared_.hq_features);
}

// ---------------------------------------------------------------- masks

void SamTensorPredictor::decode_set(Context& ctx, const sam::Prompt& prompt, const TensorJob& job,
                                    const SetOutputs& out) const {
  const sam::PromptEncoder& encoder = prompt_encoder();
  const sam::MaskDecoder& decoder = sam().mask_decoder;
  const View sparse =
      ctx.workspace.floats({sam::PromptEncoder::num_tokens(prompt), encoder.config.embed_dim});
  encoder.embed_tokens(prompt, sparse);
  const sam::MaskDecoder::Inputs in{.map = shared_.embedding,
                                    .image_pe = encoder.dense_pe,
                                    .sparse = sparse,
                                    .projected = &shared_.projected};
  if (has_hq_token()) return decode_hq(ctx, in, job, out);
  const std::int64_t first = job.multimask_output ? 1 : 0, count = out.masks.shape[0];
  const sam::MaskDecoder::Decoded decoded = decoder.decode(ctx, in, {first, count});
  std::copy_n(decoded.iou_predictions.data + first, count, out.iou);
  if (!job.iou_threshold) return decoder.predict_masks(ctx, decoded, first, out.masks);
  for (std::int64_t k = 0; k < count; ++k) {
    if (!(out.iou[k] > *job.iou_threshold)) continue;
    const View mask = out.masks[k];
    decoder.predict_masks(ctx, decoded, first + k, mask.reshape({1, mask.shape[0], mask.shape[1]}));
  }
}

// The HQ token's mask is added to each of SAM's, which several stand in the order of their scores.
void SamTensorPredictor::decode_hq(Context& ctx, const sam::MaskDecoder::Inputs& in,
                                   const TensorJob& job, const SetOutputs& out) const {
  const sam::MaskDecoder& decoder = sam().mask_decoder;
  const std::int64_t first = job.multimask_output ? 1 : 0;
  const std::int64_t count = num_scores(job.multimask_output);
  const sam::MaskDecoder::Decoded decoded = decoder.decode(ctx, in, decoder.hq_tokens(first));
  const float* const iou = decoded.iou_predictions.data + first;
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return iou[a] > iou[b]; });
  std::transform(order.begin(), order.end(), out.iou, [&](std::int64_t i) { return iou[i]; });

  const Shape side{out.masks.shape[1], out.masks.shape[2]};
  const View hq = ctx.workspace.floats(side);
  decoder.predict_hq_mask(ctx, decoded, shared_.hq_features, std::nullopt, hq);
  if (job.hq_token_only) return copy_(ctx, out.masks[0], hq);
  const View masks = ctx.workspace.floats({count, side[0], side[1]});
  decoder.predict_masks(ctx, decoded, first, masks);
  std::int64_t next = 0;
  for (const std::int64_t i : order) {
    copy_(ctx, out.masks[next], masks[i]);
    add_(ctx, out.masks[next++], hq);
  }
}

}  // namespace

std::unique_ptr<TensorPredictor> make_sam_tensor_predictor(std::shared_ptr<const Model> model,
                                                           int num_threads) {
  return std::make_unique<SamTensorPredictor>(std::move(model), num_threads);
}

}  // namespace sam_rlx
