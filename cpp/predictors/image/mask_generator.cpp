#include "predictors/image/mask_generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "masks/components.h"
#include "masks/nms.h"

namespace sam_rlx {
namespace {

void check_finite(const char* name, double value) {
  if (!std::isfinite(value)) fail(name, "a finite number", std::to_string(value));
}

void check(const MaskGeneratorConfig& config) {
  if (config.points_per_side.has_value() == config.point_grids.has_value()) {
    fail("points_per_side", "exactly one of points_per_side and point_grids",
         config.point_grids ? "both" : "none");
  }
  generate_crop_boxes({1, 1}, config.crop_n_layers, config.crop_overlap_ratio);
}

void check_grids(const std::vector<std::vector<double>>& grids, std::int64_t layers) {
  if (static_cast<std::int64_t>(grids.size()) < layers + 1) {
    fail("point_grids", "a grid for each of " + std::to_string(layers + 1) + " layers",
         std::to_string(grids.size()));
  }
  for (const std::vector<double>& grid : grids) {
    if (grid.size() % 2 != 0) fail("point_grids", "pairs of numbers", std::to_string(grid.size()));
    for (const double position : grid) check_finite("point_grids", position);
  }
}

// Keeps the records that survive box suppression, best first.
template <class Score>
void suppress(std::vector<MaskRecord>& records, double iou_threshold, const Score& score) {
  std::vector<float> boxes, scores;
  for (const MaskRecord& record : records) {
    const PixelBox& box = record.box;
    for (const std::int64_t side : {box.x0, box.y0, box.x1, box.y1}) {
      boxes.push_back(static_cast<float>(side));
    }
    scores.push_back(score(record));
  }
  std::vector<MaskRecord> kept;
  for (const std::int64_t i :
       nms(boxes.data(), scores.data(), static_cast<std::int64_t>(records.size()), iou_threshold)) {
    kept.push_back(std::move(records[static_cast<std::size_t>(i)]));
  }
  records = std::move(kept);
}

float inverse_area(const MaskRecord& record) {
  const CropBox& crop = record.crop_box;
  return 1.0F / static_cast<float>((crop.x1 - crop.x0) * (crop.y1 - crop.y0));
}

}  // namespace

struct MaskGenerator::Job {
  Context& ctx;
  const ImageView& image;
  CropPredictor& predictor;
  std::function<void(std::int64_t points)> advance;
};

MaskGenerator::MaskGenerator(const MaskGeneratorConfig& config) : config_(config) {
  check(config);
  point_grids_ = config.point_grids
                     ? *config.point_grids
                     : build_all_layer_point_grids(*config.points_per_side, config.crop_n_layers,
                                                   config.crop_n_points_downscale_factor);
  check_grids(point_grids_, config.crop_n_layers);
}

std::vector<MaskRecord> MaskGenerator::generate(Context& ctx, const ImageView& image,
                                                CropPredictor& predictor,
                                                const Progress& progress) const {
  const std::vector<CropBox> crops = generate_crop_boxes(
      {image.height, image.width}, config_.crop_n_layers, config_.crop_overlap_ratio);
  std::int64_t total = 0, done = 0;
  for (const CropBox& crop : crops) {
    if (crop.x0 < 0 || crop.y0 < 0 || crop.x0 >= crop.x1 || crop.y0 >= crop.y1) {
      fail("crop_n_layers", "crops of at least one pixel",
           std::to_string(config_.crop_n_layers) + " layers that overlap by " +
               std::to_string(config_.crop_overlap_ratio) + " of an image of " +
               std::to_string(image.height) + " x " + std::to_string(image.width));
    }
    total +=
        static_cast<std::int64_t>(point_grids_[static_cast<std::size_t>(crop.layer)].size() / 2);
  }
  const Job job{ctx, image, predictor, [&](std::int64_t points) {
                  done += points;
                  if (progress) progress(done, total);
                  ctx.check_interrupt();
                }};

  std::vector<MaskRecord> records;
  for (const CropBox& crop : crops) process_crop(job, crop, records);

  // Between crops, masks of smaller ones are preferred.
  if (crops.size() > 1) suppress(records, config_.crop_nms_thresh, inverse_area);
  if (config_.min_mask_region_area > 0) {
    postprocess_small_regions(ctx, static_cast<double>(config_.min_mask_region_area),
                              std::max(config_.box_nms_thresh, config_.crop_nms_thresh), records);
  }
  return records;
}

// Adds the masks of one crop, in pixels of the whole image.
void MaskGenerator::process_crop(const Job& job, const CropBox& crop,
                                 std::vector<MaskRecord>& records) const {
  job.predictor.set_image(job.image.crop(crop.x0, crop.y0, crop.x1, crop.y1));
  std::vector<double> points = point_grids_[static_cast<std::size_t>(crop.layer)];
  for (std::size_t i = 0; i < points.size(); i += 2) {
    points[i] *= static_cast<double>(crop.x1 - crop.x0);
    points[i + 1] *= static_cast<double>(crop.y1 - crop.y0);
  }
  std::vector<MaskRecord> found;
  const PointMaskRules rules{.points_per_batch = config_.points_per_batch,
                             .pred_iou_thresh = config_.pred_iou_thresh,
                             .stability_score_thresh = config_.stability_score_thresh,
                             .stability_score_offset = config_.stability_score_offset};
  add_point_masks(
      {job.ctx, job.predictor, rules, crop, {job.image.height, job.image.width}, job.advance},
      points, found);
  suppress(found, config_.box_nms_thresh,
           [](const MaskRecord& record) { return record.predicted_iou; });
  for (MaskRecord& record : found) {
    PixelBox& box = record.box;
    box = {box.x0 + crop.x0, box.y0 + crop.y0, box.x1 + crop.x0, box.y1 + crop.y0};
    record.point[0] += static_cast<double>(crop.x0);
    record.point[1] += static_cast<double>(crop.y0);
    records.push_back(std::move(record));
  }
}

void MaskGenerator::postprocess_small_regions(Context& ctx, double min_area, double nms_thresh,
                                              std::vector<MaskRecord>& records) {
  std::vector<char> unchanged(records.size(), 0);
  parallel_for(ctx.num_threads, static_cast<std::int64_t>(records.size()), 1,
               [&](std::int64_t begin, std::int64_t /*end*/, int /*thread*/) {
                 const auto i = static_cast<std::size_t>(begin);
                 Rle& mask = records[i].segmentation;
                 const bool filled = remove_small_regions(mask, min_area, Regions::kHoles);
                 const bool removed = remove_small_regions(mask, min_area, Regions::kIslands);
                 if (filled || removed) records[i].box = rle_box(mask);
                 unchanged[i] = filled || removed ? 0 : 1;
               });
  suppress(records, nms_thresh, [&](const MaskRecord& record) {
    return static_cast<float>(unchanged[static_cast<std::size_t>(&record - records.data())]);
  });
}

}  // namespace sam_rlx
