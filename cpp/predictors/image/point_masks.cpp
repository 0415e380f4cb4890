#include "predictors/image/point_masks.h"

#include <algorithm>
#include <utility>

namespace sam_rlx {
namespace {

// Prompts are independent, so a batch is cut into parts that keep all threads busy: the logits of
// one part are all that is held.
constexpr std::int64_t kPointsPerThread = 4;
constexpr std::int64_t kLeastPoints = 16;

BoxSides sides(std::int64_t x0, std::int64_t y0, std::int64_t x1, std::int64_t y1) {
  return {static_cast<float>(x0), static_cast<float>(y0), static_cast<float>(x1),
          static_cast<float>(y1)};
}

// Whether a box, in pixels of the crop, is cut off by the crop and not by the image.
bool is_cut_off(const PixelBox& box, const CropBox& crop, Size orig_hw) {
  return is_box_near_crop_edge(
      sides(box.x0 + crop.x0, box.y0 + crop.y0, box.x1 + crop.x0, box.y1 + crop.y0),
      sides(crop.x0, crop.y0, crop.x1, crop.y1), sides(0, 0, orig_hw.width, orig_hw.height));
}

bool is_stable(const PointMaskRules& rules, float stability) {
  if (!(rules.stability_score_thresh > 0.0)) return true;
  const auto bound = static_cast<float>(rules.stability_score_thresh);
  return rules.above_stability ? stability > bound : stability >= bound;
}

}  // namespace

std::int64_t add_point_masks(const PointMaskJob& job, const std::vector<double>& points,
                             std::vector<MaskRecord>& records) {
  const PointMaskRules& rules = job.rules;
  const MaskGeometry geometry = job.predictor.geometry();
  const std::int64_t masks = job.predictor.masks_per_point();
  const double threshold = job.predictor.mask_threshold();
  const SummaryArgs args{static_cast<float>(threshold),
                         static_cast<float>(threshold + rules.stability_score_offset),
                         static_cast<float>(threshold - rules.stability_score_offset),
                         {job.orig_hw.height, job.orig_hw.width, job.crop.x0, job.crop.y0}};
  std::optional<float> iou_thresh;
  if (rules.pred_iou_thresh > 0.0) iou_thresh = static_cast<float>(rules.pred_iou_thresh);

  const auto count = static_cast<std::int64_t>(points.size() / 2);
  const std::int64_t step =
      std::min({rules.points_per_batch, count,
                std::max(kLeastPoints, kPointsPerThread * job.ctx.num_threads)});
  Tensor low_res({std::max<std::int64_t>(step, 1), masks, geometry.low_height, geometry.low_width});
  Tensor iou({std::max<std::int64_t>(step, 1), masks});
  std::int64_t enough = 0;
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t n = std::min(step, count - begin);
    const double* const part = points.data() + 2 * begin;
    job.predictor.predict(part, iou_thresh,
                          {low_res.data(), {n, masks, geometry.low_height, geometry.low_width}},
                          {iou.data(), {n, masks}});

    std::vector<const float*> logits;
    std::vector<std::int64_t> index;
    for (std::int64_t i = 0; i < n * masks; ++i) {
      if (iou_thresh && !(iou.data()[i] > *iou_thresh)) continue;
      logits.push_back(low_res.data() + i * geometry.low_height * geometry.low_width);
      index.push_back(i);
    }
    std::vector<MaskSummary> summaries(index.size());
    summarize_masks(job.ctx, logits, geometry, args, summaries.data());

    for (std::size_t k = 0; k < index.size(); ++k) {
      MaskSummary& summary = summaries[k];
      const float stability = stability_score(summary.count_high, summary.count_low);
      if (!is_stable(rules, stability)) continue;
      ++enough;
      if (is_cut_off(summary.box, job.crop, job.orig_hw)) continue;
      const double* const point = part + 2 * (index[k] / masks);
      records.push_back({std::move(summary.rle),
                         summary.box,
                         iou.data()[index[k]],
                         stability,
                         {point[0], point[1]},
                         job.crop});
    }
    if (job.advance) job.advance(n);
  }
  return enough;
}

}  // namespace sam_rlx
