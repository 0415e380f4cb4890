#pragma once

#include <optional>

#include "predictors/image_predictor.h"
#include "predictors/mask_generator.h"

namespace sam_rlx {

// An ImagePredictor as everything mode sees it.
class SamCropPredictor final : public CropPredictor {
 public:
  explicit SamCropPredictor(ImagePredictor& predictor) : predictor_(predictor) {}

  void set_image(const ImageView& crop) override { predictor_.set_image(crop); }
  MaskGeometry geometry() const override { return predictor_.mask_geometry(); }
  std::int64_t masks_per_point() const override { return predictor_.mask_range(true).count; }
  double mask_threshold() const override {
    return static_cast<double>(predictor_.model().sam().config.mask_threshold);
  }
  void predict(const double* points, std::optional<float> iou_threshold, View low_res,
               View iou) override;

 private:
  ImagePredictor& predictor_;
};

}  // namespace sam_rlx
