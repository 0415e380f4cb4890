#include "predictors/image/sam_crop_predictor.h"

#include <algorithm>

#include "core/parallel.h"
#include "masks/small_regions.h"

namespace sam_rlx {

void SamCropPredictor::predict(const double* points, std::optional<float> iou_threshold,
                               View low_res, View iou) {
  const std::int64_t count = iou.shape[0];
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(count), 1);
  const PromptBatch prompts{
      .batch = count, .num_points = 1, .point_coords = points, .point_labels = labels.data()};
  // Masks that are refined are filtered only then.
  predictor_.decode(prompts, {.frame = Frame::kOriginalFloat64,
                              .multimask_output = options_.multimask_output,
                              .hq_token_only = options_.hq_token_only,
                              .iou_threshold = options_.use_m2m ? std::nullopt : iou_threshold,
                              .low_res = low_res,
                              .iou = iou});
  if (options_.use_m2m) refine(points, low_res, iou);
  if (options_.max_region_area > 0.0) clean(iou_threshold, low_res, iou);
}

void SamCropPredictor::clean(std::optional<float> iou_threshold, View low_res, ConstView iou) {
  const SmallRegions regions{.max_hole_area = options_.max_region_area,
                             .max_sprinkle_area = options_.max_region_area,
                             .mask_threshold = predictor_.model().info().mask_threshold};
  const View masks = low_res.reshape({iou.numel(), low_res.shape[2], low_res.shape[3]});
  parallel_for(predictor_.num_threads(), iou.numel(), 1,
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   if (iou_threshold && !(iou.data[i] > *iou_threshold)) continue;
                   const View mask = masks[i];
                   remove_small_regions_(mask.reshape({1, mask.shape[0], mask.shape[1]}), regions);
                 }
               });
}

// Upstream: sam2/automatic_mask_generator.py, refine_with_m2m.
void SamCropPredictor::refine(const double* points, View low_res, View iou) {
  const std::int64_t masks = iou.shape[1], count = iou.numel();
  const Shape one{count, 1, low_res.shape[2], low_res.shape[3]};
  std::vector<double> coords;
  for (std::int64_t i = 0; i < count; ++i) {
    const double* const point = points + 2 * (i / masks);
    coords.insert(coords.end(), {point[0], point[1]});
  }
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(count), 1);
  Tensor before({count, low_res.shape[2], low_res.shape[3]});
  sam2::clamp_prompt_logits(low_res.reshape(before.shape()), before.view());
  const PromptBatch prompts{.batch = count,
                            .num_points = 1,
                            .point_coords = coords.data(),
                            .point_labels = labels.data(),
                            .mask_input = before};
  predictor_.decode(prompts, {.frame = Frame::kOriginalFloat64,
                              .multimask_output = false,
                              .iou_threshold = std::nullopt,
                              .low_res = low_res.reshape(one),
                              .iou = iou.reshape({count, 1})});
}

}  // namespace sam_rlx
