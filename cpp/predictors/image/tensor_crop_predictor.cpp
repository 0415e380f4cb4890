#include "predictors/image/tensor_crop_predictor.h"

#include <variant>

namespace sam_rlx {

MaskGeometry TensorCropPredictor::geometry() const {
  const Model& model = predictor_.model();
  const std::int64_t low = model.info().mask_side;
  const bool pads = std::holds_alternative<sam::Sam>(model.network());
  return {.low_height = low,
          .low_width = low,
          .side = pads ? model.info().img_size : 0,
          .input_height = crop_.input_hw.height,
          .input_width = crop_.input_hw.width,
          .height = crop_.crop_hw.height,
          .width = crop_.crop_hw.width};
}

void TensorCropPredictor::predict(const double* points, std::optional<float> iou_threshold,
                                  View low_res, View iou) {
  const std::int64_t count = iou.shape[0], masks = iou.shape[1];
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(count), 1);
  object_scores_.resize(static_cast<std::size_t>(count));
  const TensorPrompts prompts{
      .sets = count, .num_points = 1, .point_coords = points, .point_labels = labels.data()};
  const Shape all{1, count, masks, low_res.shape[2], low_res.shape[3]};
  predictor_.decode_sets(prompts, {.iou_threshold = iou_threshold,
                                   .masks = low_res.reshape(all),
                                   .iou_scores = iou.reshape({1, count, masks}),
                                   .object_scores = {object_scores_.data(), {1, count}}});
}

}  // namespace sam_rlx
