#pragma once

#include <vector>

#include "predictors/image/point_masks.h"
#include "predictors/image/tensor_predictor.h"

namespace sam_rlx {

// A crop as a TensorPredictor has it, whose maps were set.
struct TensorCrop {
  Size crop_hw;
  Size input_hw;  // of the crop in the network's input; SAM alone pads
  double mask_threshold = 0.0;
};

// A TensorPredictor as everything mode sees it: points in pixels of the network's input.
class TensorCropPredictor final : public CropPredictor {
 public:
  TensorCropPredictor(TensorPredictor& predictor, const TensorCrop& crop)
      : predictor_(predictor), crop_(crop) {}

  void set_image(const ImageView& /*crop*/) override {}  // it is set
  MaskGeometry geometry() const override;
  std::int64_t masks_per_point() const override { return predictor_.num_masks(true, false); }
  double mask_threshold() const override { return crop_.mask_threshold; }
  void predict(const double* points, std::optional<float> iou_threshold, View low_res,
               View iou) override;

 private:
  TensorPredictor& predictor_;
  TensorCrop crop_;
  std::vector<float> object_scores_;
};

}  // namespace sam_rlx
