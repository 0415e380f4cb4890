#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "layers/fields.h"
#include "predictors/image/point_masks.h"

namespace sam_rlx {

// Upstream's names and defaults: segment_anything/automatic_mask_generator.py.
struct MaskGeneratorConfig {
  std::optional<std::int64_t> points_per_side = 32;
  std::int64_t points_per_batch = 64;
  double pred_iou_thresh = 0.88;
  double stability_score_thresh = 0.95;
  double stability_score_offset = 1.0;
  double box_nms_thresh = 0.7;
  std::int64_t crop_n_layers = 0;
  double crop_nms_thresh = 0.7;
  double crop_overlap_ratio = 512.0 / 1500.0;
  std::int64_t crop_n_points_downscale_factor = 1;
  std::optional<std::vector<std::vector<double>>> point_grids;  // x, y, ... in 0 to 1, by layer
  std::int64_t min_mask_region_area = 0;                        // pixels

  template <class V>
  void fields(V& v) {
    v("points_per_side", points_per_side, 1, kNoLimit, "points along each side of the grid");
    v("points_per_batch", points_per_batch, 1, kNoLimit, "points per decoder call");
    v("pred_iou_thresh", pred_iou_thresh, 0, kNoLimit,
      "keep masks with a predicted IoU above this");
    v("stability_score_thresh", stability_score_thresh, 0, 1,
      "keep masks with at least this stability");
    v("stability_score_offset", stability_score_offset, 0, kNoLimit,
      "shift of the logit threshold for the stability score");
    v("box_nms_thresh", box_nms_thresh, 0, 1, "box IoU above which the weaker mask is dropped");
    v("crop_n_layers", crop_n_layers, 0, 8, "also run on crops, this many layers deep");
    v("crop_nms_thresh", crop_nms_thresh, 0, 1, "the same between crops");
    v("crop_overlap_ratio", crop_overlap_ratio, 0, 1,
      "overlap of crops, as a part of the shorter side");
    v("crop_n_points_downscale_factor", crop_n_points_downscale_factor, 1, kNoLimit,
      "in layer i, points per side are divided by this to the power i");
    v("min_mask_region_area", min_mask_region_area, 0, kNoLimit,
      "remove holes and islands smaller than this");
  }
};

// Prompts that are done, and their number.
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

// All masks of an image: a grid of points on the image and its crops, filtered by predicted
// IoU, stability and overlap. Only run-length codes are kept of masks.
class MaskGenerator {
 public:
  // Raises InvalidArgument when an argument is out of range.
  explicit MaskGenerator(const MaskGeneratorConfig& config);

  // Records in upstream's order. `progress` may be empty.
  std::vector<MaskRecord> generate(Context& ctx, const ImageView& image, CropPredictor& predictor,
                                   const Progress& progress = {}) const;

  // Fills holes and removes islands of less than `min_area` pixels, then suppresses boxes that
  // became duplicates; masks that needed no change are preferred.
  static void postprocess_small_regions(Context& ctx, double min_area, double nms_thresh,
                                        std::vector<MaskRecord>& records);

 private:
  struct Job;
  void process_crop(const Job& job, const CropBox& crop, std::vector<MaskRecord>& records) const;

  MaskGeneratorConfig config_;
  std::vector<std::vector<double>> point_grids_;
};

}  // namespace sam_rlx
