#include <algorithm>
#include <utility>

#include "layers/position_encoding.h"
#include "ops/elementwise.h"
#include "predictors/image/image_front_end.h"
#include "predictors/image/tensor_predictor.h"

namespace sam_rlx {
namespace {

// Before SAM 2's heads, which SAM 3's tracker has too. Upstream: transformers, Sam2Model,
// EdgeTamModel and Sam3TrackerModel.
class HeadsTensorPredictor final : public TensorPredictor {
 public:
  HeadsTensorPredictor(std::shared_ptr<const Model> model, int num_threads)
      : TensorPredictor(model, num_threads),
        front_end_(ImageFrontEnd::make(model)),
        heads_(front_end_->heads()) {}

  std::vector<Shape> map_shapes(bool all_maps) const override;
  std::vector<Tensor> position_encodings() const override;
  bool has_object_scores() const override { return true; }

 private:
  const sam::PromptEncoder& prompt_encoder() const override { return heads_.sam_prompt_encoder; }
  std::int64_t num_multimask_outputs() const override {
    return heads_.config.mask_decoder.num_multimask_outputs;
  }
  Shape last_shape() const;
  std::vector<View> levels(Context& ctx, ConstView image, View last) const;
  void encode_image(Context& ctx, ConstView image, const TensorEncoding& encoding,
                    std::span<const View> maps) const override;
  void adopt(Context& ctx, std::span<const ConstView> maps, ConstView mask) override;
  void decode_set(Context& ctx, const sam::Prompt& prompt, const TensorJob& job,
                  const SetOutputs& out) const override;

  std::unique_ptr<const ImageFrontEnd> front_end_;
  const sam2::Sam2Heads& heads_;  // of the model
  sam2::HighResFeatures high_res_;
  sam::SharedFeatures shared_;
};

// ---------------------------------------------------------------- the image

// Of the trunk's coarsest map: (h, w, D), of SAM 3 (h * w, D).
Shape HeadsTensorPredictor::last_shape() const {
  if (const auto* const sam3 = std::get_if<sam3::Sam3>(&model().network())) {
    const sam3::ViTConfig& trunk = sam3->config.vision.trunk;
    return {trunk.grid() * trunk.grid(), trunk.embed_dim};
  }
  const sam2::ImageEncoderConfig& sizes = model().sam2().config.image_encoder;
  const std::int64_t last = sizes.num_stages() - 1, side = sizes.stage_grid(last);
  return {side, side, sizes.stage_width(last)};
}

std::vector<Shape> HeadsTensorPredictor::map_shapes(bool all_maps) const {
  const std::int64_t g = heads_.config.base.grid(), c = heads_.config.hidden_dim();
  std::vector<Shape> shapes{{c / 8, 4 * g, 4 * g}, {c / 4, 2 * g, 2 * g}, {c, g, g}};
  if (all_maps) shapes.push_back(last_shape());
  return shapes;
}

std::vector<Tensor> HeadsTensorPredictor::position_encodings() const {
  const std::int64_t g = heads_.config.base.grid();
  const PositionEmbeddingSine encoding{.num_pos_feats = heads_.config.hidden_dim()};
  std::vector<Tensor> out;
  for (const std::int64_t side : {4 * g, 2 * g, g}) out.push_back(encoding.dense(side, side));
  return out;
}

std::vector<View> HeadsTensorPredictor::levels(Context& ctx, ConstView image, View last) const {
  const auto* const sam3 = std::get_if<sam3::Sam3>(&model().network());
  if (sam3 == nullptr) return model().sam2().image_encoder.forward(ctx, image, last);
  const sam3::Sam3DualViTDetNeck& vision = sam3->vision();
  const View map = vision.forward_trunk(ctx, image);
  if (last.data != nullptr) copy_(ctx, last, map);
  return vision.levels(ctx, map, vision.sam2_convs);
}

void HeadsTensorPredictor::encode_image(Context& ctx, ConstView image,
                                        const TensorEncoding& encoding,
                                        std::span<const View> maps) const {
  const std::vector<View> fpn = levels(ctx, image, encoding.all_maps ? maps[3] : View{});
  if (encoding.no_mem_embed) add_(ctx, fpn[2], heads_.no_mem_embed);
  for (std::size_t i = 0; i < fpn.size(); ++i) {
    const std::int64_t c = maps[i].shape[0], positions = maps[i].shape[1] * maps[i].shape[2];
    transpose(ctx, fpn[i].reshape({positions, c}), maps[i].reshape({c, positions}));
  }
}

void HeadsTensorPredictor::adopt(Context& ctx, std::span<const ConstView> maps, ConstView mask) {
  const Workspace::Scope scratch(ctx.workspace);
  const auto channels_last = [&](ConstView map) {
    const std::int64_t c = map.shape[0], positions = map.shape[1] * map.shape[2];
    const View out = ctx.workspace.floats({map.shape[1], map.shape[2], c});
    transpose(ctx, map.reshape({c, positions}), out.reshape({positions, c}));
    return out;
  };
  sam2::MaskDecoder::adopt_high_res(ctx, channels_last(maps[0]), channels_last(maps[1]), high_res_);
  share(ctx, heads_.sam_mask_decoder.transformer, channels_last(maps[2]), mask, shared_);
}

// ---------------------------------------------------------------- masks

void HeadsTensorPredictor::decode_set(Context& ctx, const sam::Prompt& prompt, const TensorJob& job,
                                      const SetOutputs& out) const {
  const sam::PromptEncoder& encoder = prompt_encoder();
  const sam2::MaskDecoder& decoder = heads_.sam_mask_decoder;
  const View sparse =
      ctx.workspace.floats({sam::PromptEncoder::num_tokens(prompt), encoder.config.embed_dim});
  encoder.embed_tokens(prompt, sparse);
  const sam2::MaskDecoder::Decoded decoded = decoder.decode(ctx, {.map = shared_.embedding,
                                                                  .image_pe = encoder.dense_pe,
                                                                  .sparse = sparse,
                                                                  .projected = &shared_.projected});
  if (out.object_score != nullptr) *out.object_score = decoded.object_score_logit;
  if (job.multimask_output) {
    std::copy_n(decoded.iou_predictions.data + 1, out.masks.shape[0], out.iou);
    if (!job.iou_threshold) {
      decoder.predict_masks(ctx, decoded, high_res_, 1, out.masks);
      return;
    }
    for (std::int64_t k = 0; k < out.masks.shape[0]; ++k) {
      if (!(out.iou[k] > *job.iou_threshold)) continue;
      const View mask = out.masks[k];
      decoder.predict_masks(ctx, decoded, high_res_, 1 + k,
                            mask.reshape({1, mask.shape[0], mask.shape[1]}));
    }
    return;
  }
  const std::int64_t chosen = decoder.predict_single_mask(ctx, decoded, high_res_, out.masks[0]);
  *out.iou = decoded.iou_predictions.data[chosen];
}

}  // namespace

std::unique_ptr<TensorPredictor> make_heads_tensor_predictor(std::shared_ptr<const Model> model,
                                                             int num_threads) {
  return std::make_unique<HeadsTensorPredictor>(std::move(model), num_threads);
}

}  // namespace sam_rlx
