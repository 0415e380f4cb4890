#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "core/context.h"
#include "core/image.h"
#include "masks/geometry.h"
#include "predictors/image/crops.h"

namespace sam_rlx {

// What everything mode asks of a model.
class CropPredictor {
 public:
  virtual ~CropPredictor() = default;
  virtual void set_image(const ImageView& crop) = 0;
  // Sizes for the image that was set last.
  virtual MaskGeometry geometry() const = 0;
  virtual std::int64_t masks_per_point() const = 0;
  // The logit above which a pixel belongs to a mask.
  virtual double mask_threshold() const = 0;
  // One prompt for each of the points (N, 2), foreground, in pixels of the crop. Writes iou (N, M)
  // and the logits low_res (N, M, h, w), where masks whose IoU is not above `iou_threshold` (no
  // threshold: none) may be left as they are.
  virtual void predict(const double* points, std::optional<float> iou_threshold, View low_res,
                       View iou) = 0;
};

struct MaskRecord {
  Rle segmentation;  // at the size of the image
  PixelBox box;      // in the image
  float predicted_iou = 0.0F;
  float stability_score = 0.0F;
  std::array<double, 2> point{};  // x, y in the image
  CropBox crop_box;
};

// Which masks of points are kept. Bounds that are not above zero keep all.
struct PointMaskRules {
  std::int64_t points_per_batch = 0;
  double pred_iou_thresh = 0.0;         // the predicted IoU is above it
  double stability_score_thresh = 0.0;  // the stability is above it, or at it
  double stability_score_offset = 0.0;
  bool above_stability = false;  // the stability has to be above, as in transformers
};

// One crop of an image, which the predictor has.
struct PointMaskJob {
  Context& ctx;
  CropPredictor& predictor;
  const PointMaskRules& rules;
  CropBox crop;
  Size orig_hw;  // of the image
  std::function<void(std::int64_t points)> advance = {};
};

// Adds the masks of points (x, y, x, y, ...), which are filtered by predicted IoU, stability, and
// whether the crop cuts them off: boxes and points in pixels of the crop, codes in the image.
// Returns how many had IoU and stability enough.
std::int64_t add_point_masks(const PointMaskJob& job, const std::vector<double>& points,
                             std::vector<MaskRecord>& records);

}  // namespace sam_rlx
