#include "predictors/sam_crop_predictor.h"

#include <vector>

namespace sam_rlx {

void SamCropPredictor::predict(const double* points, std::optional<float> iou_threshold,
                               View low_res, View iou) {
  const std::int64_t count = iou.shape[0];
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(count), 1);
  const PromptBatch prompts{
      .batch = count, .num_points = 1, .point_coords = points, .point_labels = labels.data()};
  predictor_.decode_above(prompts, Frame::kOriginalFloat64, iou_threshold, low_res, iou);
}

}  // namespace sam_rlx
