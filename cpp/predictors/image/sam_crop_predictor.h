#pragma once

#include <optional>
#include <vector>

#include "predictors/image/image_predictor.h"
#include "predictors/image/point_masks.h"

namespace sam_rlx {

// Arguments of SAM2AutomaticMaskGenerator that SamAutomaticMaskGenerator does not have.
struct CropOptions {
  bool multimask_output = true;
  bool hq_token_only = false;  // SAM-HQ and HQ-SAM 2
  // Each mask is a prompt for itself once more, with its point; SAM 2.
  bool use_m2m = false;
  std::optional<double> mask_threshold;  // the model's
  // Holes and islands of at most so many positions of the low-resolution mask are removed; SAM 2.
  double max_region_area = 0.0;
  // The predictor has the image already, which is the only crop.
  bool is_encoded = false;
};

// An ImagePredictor as everything mode sees it.
class SamCropPredictor final : public CropPredictor {
 public:
  SamCropPredictor(ImagePredictor& predictor, const CropOptions& options)
      : predictor_(predictor), options_(options) {}

  void set_image(const ImageView& crop) override {
    if (!options_.is_encoded) predictor_.set_image(crop);
  }
  MaskGeometry geometry() const override { return predictor_.mask_geometry(); }
  std::int64_t masks_per_point() const override {
    return predictor_.num_masks(options_.multimask_output, options_.hq_token_only);
  }
  double mask_threshold() const override {
    return options_.mask_threshold.value_or(
        static_cast<double>(predictor_.model().info().mask_threshold));
  }
  void predict(const double* points, std::optional<float> iou_threshold, View low_res,
               View iou) override;

 private:
  void refine(const double* points, View low_res, View iou);
  void clean(std::optional<float> iou_threshold, View low_res, ConstView iou);

  ImagePredictor& predictor_;
  CropOptions options_;
};

}  // namespace sam_rlx
