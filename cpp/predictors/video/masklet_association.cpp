#include "predictors/video/masklet_association.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/index.h"
#include "masks/iou.h"
#include "ops/resize.h"

namespace sam_rlx {
namespace {

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

// IoUs (N, M) of what has different texts become 0.
void separate_texts_(std::vector<float>& ious, const Detections& detections,
                     const Masklets& masklets) {
  const std::size_t tracks = masklets.texts.size();
  for (std::size_t i = 0; i < ious.size(); ++i) {
    if (tracks > 0 && detections.texts[i / tracks] != masklets.texts[i % tracks]) ious[i] = 0.0F;
  }
}

MaskOverlap overlap_of(bool use_iom) {
  return use_iom ? MaskOverlap::kOfSmaller : MaskOverlap::kOfUnion;
}

float confident_overlap(const AssociationConfig& config) {
  return config.use_iom_recondition ? config.iom_thresh_recondition : config.high_iou_thresh;
}

// Of N detections and M masklets (N, M): none where one of either is like two of the others.
void drop_ambiguous(std::span<float> overlaps, std::int64_t tracks, float threshold) {
  const auto count = static_cast<std::int64_t>(overlaps.size()) / tracks;
  std::vector<std::int64_t> of_row(at(count)), of_column(at(tracks));
  for (std::size_t i = 0; i < overlaps.size(); ++i) {
    if (!(overlaps[i] >= threshold)) continue;
    ++of_row[i / at(tracks)];
    ++of_column[i % at(tracks)];
  }
  for (std::size_t i = 0; i < overlaps.size(); ++i) {
    if (of_row[i / at(tracks)] > 1 || of_column[i % at(tracks)] > 1) overlaps[i] = 0.0F;
  }
}

// What the overlaps of a detection say of it: all, and those that are of pairs.
struct DetectionOverlaps {
  std::span<const float> all, pairs;
};
void match_detection(const AssociationConfig& config, std::int64_t detection, float score,
                     const DetectionOverlaps& overlaps, const Masklets& masklets,
                     Association& out) {
  const auto is_same = [&](float overlap) { return overlap >= config.assoc_iou_thresh; };
  const std::span<const float> ious = overlaps.pairs;
  std::vector<std::int64_t>& matched = out.matched[at(detection)];
  for (std::size_t m = 0; m < ious.size(); ++m) {
    if (is_same(ious[m])) matched.push_back(masklets.obj_ids[m]);
  }
  const bool is_known = std::any_of(overlaps.all.begin(), overlaps.all.end(), is_same);
  if (!is_known && score >= config.new_det_thresh) {
    out.new_detections.push_back(detection);
    return;
  }
  const auto best = std::max_element(ious.begin(), ious.end());
  if (score >= config.high_conf_thresh && *best >= confident_overlap(config)) {
    out.confident[masklets.obj_ids[at(best - ious.begin())]] = detection;
  }
}

using CornerBox = std::array<float, 4>;  // x0, y0, x1, y1 as fractions of the sides

CornerBox box_of(std::span<const float> boxes, std::int64_t index) {
  CornerBox box;
  std::copy_n(boxes.begin() + 4 * index, 4, box.begin());
  return box;
}

// Of the positive logits of a mask (H, W): first and last position of each axis.
std::optional<CornerBox> box_of_mask(ConstView mask) {
  const std::int64_t height = mask.shape[0], width = mask.shape[1];
  std::int64_t x0 = width, y0 = height, x1 = -1, y1 = -1;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      if (!(mask.data[y * width + x] > 0.0F)) continue;
      x0 = std::min(x0, x);
      x1 = std::max(x1, x);
      y0 = std::min(y0, y);
      y1 = y;
    }
  }
  if (x1 < 0) return std::nullopt;
  const auto part = [](std::int64_t i, std::int64_t n) {
    return static_cast<float>(i) / static_cast<float>(n);
  };
  return CornerBox{part(x0, width), part(y0, height), part(x1, width), part(y1, height)};
}

float box_iou(const CornerBox& a, const CornerBox& b) {
  const auto area = [](const CornerBox& box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  const float shared = std::max(0.0F, std::min(a[2], b[2]) - std::max(a[0], b[0])) *
                       std::max(0.0F, std::min(a[3], b[3]) - std::max(a[1], b[1]));
  return shared / (area(a) + area(b) - shared);
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
  const std::vector<float> ious = mask_iou(ctx, bits, bits, overlap_of(thresholds.use_iom));
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
  if (count > 0) {
    ious = mask_iou(ctx, BitMasks(ctx, masks.detections), tracked,
                    overlap_of(config.use_iom_recondition));
  }
  separate_texts_(ious, detections, masklets);

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
  std::vector<float> pairs = ious;
  if (config.use_iom_recondition) drop_ambiguous(pairs, tracks, confident_overlap(config));
  const auto row = [&](const std::vector<float>& of, std::int64_t d) {
    return std::span<const float>(of.data() + d * tracks, at(tracks));
  };
  for (std::int64_t d = 0; d < count; ++d) {
    match_detection(config, d, detections.scores[at(d)], {row(ious, d), row(pairs, d)}, masklets,
                    out);
  }
  return out;
}

bool is_close_to_boundary(std::span<const float, 4> box) {
  constexpr float kMargin = 0.025F;
  const auto is_inside = [](float a, float b) {
    const float middle = (a + b) / 2.0F;
    return middle > kMargin && middle < 1.0F - kMargin;
  };
  return !is_inside(box[0], box[2]) || !is_inside(box[1], box[3]);
}

std::set<std::int64_t> masklets_to_correct(const AssociationConfig& config,
                                           const Detections& detections, const Masklets& masklets,
                                           const Association& association) {
  std::set<std::int64_t> out;
  if (!(config.reconstruction_bbox_iou_thresh > 0.0F)) return out;
  for (const auto& [obj_id, detection] : association.confident) {
    if (!(detections.scores[at(detection)] >= config.reconstruction_bbox_det_score)) continue;
    const auto found = std::find(masklets.obj_ids.begin(), masklets.obj_ids.end(), obj_id);
    const auto tracked = box_of_mask(masklets.masks[found - masklets.obj_ids.begin()]);
    const bool differs = tracked && box_iou(box_of(detections.boxes, detection), *tracked) <
                                        config.reconstruction_bbox_iou_thresh;
    if (differs) out.insert(obj_id);
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
