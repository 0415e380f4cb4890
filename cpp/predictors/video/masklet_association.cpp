#include "predictors/video/masklet_association.h"

#include <algorithm>

#include "masks/iou.h"
#include "ops/resize.h"

namespace sam_rlx {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Masks of one size: the larger ones are resized to the size of the others.
struct SameSize {
  ConstView detections, masklets;
};

SameSize make_same_size(Context& ctx, ConstView detections, ConstView masklets) {
  const auto resized = [&](ConstView masks, ConstView like) {
    const View out = ctx.workspace.floats({masks.shape[0], like.shape[1], like.shape[2]});
    resize_bilinear(ctx, masks, out);
    return out;
  };
  const Shape &d = detections.shape, &m = masklets.shape;
  if (d[1] == m[1] && d[2] == m[2]) return {detections, masklets};
  if (d[1] * d[2] < m[1] * m[2]) return {detections, resized(masklets, detections)};
  return {resized(detections, masklets), masklets};
}

// What a row of IoUs says of its detection.
void match_detection(const AssociationConfig& config, std::int64_t detection, float score,
                     std::span<const float> ious, const Masklets& masklets, Association& out) {
  std::vector<std::int64_t>& matched = out.matched[at(detection)];
  for (std::size_t m = 0; m < ious.size(); ++m) {
    if (ious[m] >= config.assoc_iou_thresh) matched.push_back(masklets.obj_ids[m]);
  }
  if (matched.empty() && score >= config.new_det_thresh) {
    out.new_detections.push_back(detection);
    return;
  }
  const auto best = std::max_element(ious.begin(), ious.end());
  if (score >= config.high_conf_thresh && *best >= config.high_iou_thresh) {
    out.confident[masklets.obj_ids[at(best - ious.begin())]] = detection;
  }
}

}  // namespace

std::vector<std::int64_t> nms_masks(Context& ctx, std::span<const float> probs, ConstView masks,
                                    const NmsThresholds& thresholds) {
  const Workspace::Scope scratch(ctx.workspace);
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < probs.size(); ++i) {
    if (probs[i] > thresholds.prob) order.push_back(static_cast<std::int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return probs[at(a)] > probs[at(b)]; });
  const BitMasks bits(ctx, masks);
  const std::vector<float> ious = mask_iou(ctx, bits, bits);
  std::vector<std::int64_t> kept;
  for (const std::int64_t candidate : order) {
    const auto suppresses = [&](std::int64_t other) {
      return !(ious[at(other * bits.count() + candidate)] <= thresholds.iou);
    };
    if (std::none_of(kept.begin(), kept.end(), suppresses)) kept.push_back(candidate);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

Association associate_det_trk(Context& ctx, const AssociationConfig& config,
                              const Detections& detections, const Masklets& masklets) {
  const Workspace::Scope scratch(ctx.workspace);
  Association out;
  const std::int64_t count = detections.masks.shape[0], tracks = masklets.masks.shape[0];
  if (tracks == 0) {
    for (std::int64_t d = 0; d < count; ++d) {
      const bool is_sure = detections.scores[at(d)] >= config.new_det_thresh;
      if (is_sure || !config.new_det_thresh_without_masklets) out.new_detections.push_back(d);
    }
    return out;
  }
  std::vector<float> ious;
  SameSize masks{detections.masks, masklets.masks};
  if (count > 0) masks = make_same_size(ctx, detections.masks, masklets.masks);
  const BitMasks tracked(ctx, masks.masklets);
  if (count > 0) ious = mask_iou(ctx, BitMasks(ctx, masks.detections), tracked);

  for (std::int64_t m = 0; m < tracks; ++m) {
    bool confirmed = false;
    for (std::int64_t d = 0; d < count; ++d) {
      confirmed = confirmed || ious[at(d * tracks + m)] >= config.trk_assoc_iou_thresh;
    }
    const std::int64_t obj_id = masklets.obj_ids[at(m)];
    if (tracked.area(m) == 0) {
      out.empty.push_back(obj_id);
    } else if (!confirmed) {
      out.unmatched.push_back(obj_id);
    }
  }
  out.matched.resize(at(count));
  for (std::int64_t d = 0; d < count; ++d) {
    const std::span<const float> row(ious.data() + d * tracks, at(tracks));
    match_detection(config, d, detections.scores[at(d)], row, masklets, out);
  }
  return out;
}

std::vector<std::int64_t> limit_new_detections(std::vector<std::int64_t> detections,
                                               std::span<const float> scores, std::int64_t most) {
  if (static_cast<std::int64_t>(detections.size()) <= most) return detections;
  std::stable_sort(detections.begin(), detections.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[at(a)] > scores[at(b)]; });
  detections.resize(at(std::max<std::int64_t>(most, 0)));
  return detections;
}

}  // namespace sam_rlx
