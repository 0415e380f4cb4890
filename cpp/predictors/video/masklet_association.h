#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "core/context.h"
#include "layers/fields.h"

namespace sam_rlx {

// A masklet is an object that a text named, and its masks so far. On each frame the detector's
// findings are compared with what tracking says. Masks are logits, scores are probabilities.

// Non-maximum suppression by masks, for findings with a probability above the first threshold: one
// goes if its mask has an IoU above the second one with that of a more probable finding that stays.
// masks (N, H, W); the indices of those that stay are ascending. Equally probable findings are
// taken in their order; upstream leaves that open. Upstream: sam3/perflib/nms.py, nms_masks.
struct NmsThresholds {
  float prob = 0.5F;
  float iou = 0.1F;
  bool use_iom = false;  // of the smaller mask, instead of the IoU

  template <class V>
  void fields(V& v) {
    v("score_threshold_detection", prob, -kNoLimit, kNoLimit,
      "follow what is found with a score above it");
    v("det_nms_thresh", iou, -kNoLimit, kNoLimit,
      "mask IoU above which the weaker of two findings is dropped; 0: none is");
    v("det_nms_use_iom", use_iom, "there, share of the smaller mask instead of mask IoU");
  }
};
std::vector<std::int64_t> nms_masks(Context& ctx, std::span<const float> probs, ConstView masks,
                                    const NmsThresholds& thresholds);

// Upstream: sam3/model_builder.py, build_sam3_video_model, and Sam3VideoBase._associate_det_trk.
struct AssociationConfig {
  float assoc_iou_thresh = 0.1F;      // a finding and a masklet are the same object
  float trk_assoc_iou_thresh = 0.5F;  // the masklet is confirmed by the finding
  float new_det_thresh = 0.7F;        // score of a new object
  // False: while there are no masklets, any detection is new, as upstream.
  bool new_det_thresh_without_masklets = false;
  float high_conf_thresh = 0.8F;  // score and IoU above which a detection is confident
  float high_iou_thresh = 0.8F;
  // SAM 3.1: shares of the smaller mask instead of IoUs; and a masklet that has one above the
  // second value with two detections, or a detection with two masklets, belongs to none of them.
  bool use_iom_recondition = false;
  float iom_thresh_recondition = 0.8F;
  bool suppress_det_close_to_boundary = false;
  float reconstruction_bbox_iou_thresh = 0.0F;  // 0: boxes are not compared
  float reconstruction_bbox_det_score = 0.0F;

  template <class V>
  void fields(V& v) {
    v("assoc_iou_thresh", assoc_iou_thresh, -kNoLimit, kNoLimit,
      "mask IoU above which a finding is an object that is followed");
    v("trk_assoc_iou_thresh", trk_assoc_iou_thresh, -kNoLimit, kNoLimit,
      "mask IoU above which a finding confirms an object");
    v("new_det_thresh", new_det_thresh, -kNoLimit, kNoLimit, "score of a new object");
    v("new_det_thresh_without_masklets", new_det_thresh_without_masklets,
      "while there is no object, too");
    v("use_iom_recondition", use_iom_recondition,
      "share of the smaller mask instead of mask IoU, and pairs alone");
    v("iom_thresh_recondition", iom_thresh_recondition, -kNoLimit, kNoLimit,
      "there, share above which a finding corrects an object");
    v("suppress_det_close_to_boundary", suppress_det_close_to_boundary,
      "no new object has its middle at the edge of the frame");
    v("reconstruction_bbox_iou_thresh", reconstruction_bbox_iou_thresh, -kNoLimit, kNoLimit,
      "box IoU with a finding below which an object is corrected at once; 0: none is");
    v("reconstruction_bbox_det_score", reconstruction_bbox_det_score, -kNoLimit, kNoLimit,
      "score of a finding that corrects at once");
  }
};

struct Detections {
  ConstView masks;  // (N, H, W)
  std::span<const float> scores;
  std::span<const float> boxes = {};         // (N, 4): x0, y0, x1, y1 as fractions of the sides
  std::span<const std::int64_t> texts = {};  // (N,), where masklets have them
};
struct Masklets {
  ConstView masks;  // (M, h, w); of another size than that of detections, the larger ones shrink
  std::span<const std::int64_t> obj_ids;
  // (M,): masklets have nothing in common with detections of another text. Empty: all have one.
  std::span<const std::int64_t> texts = {};
};

struct Association {
  std::vector<std::int64_t> new_detections;        // indices, ascending
  std::vector<std::int64_t> unmatched, empty;      // masklets
  std::vector<std::vector<std::int64_t>> matched;  // masklets of each detection
  std::map<std::int64_t, std::int64_t> confident;  // masklet to the last detection that is sure
};

// While there are no masklets `matched` is empty, and when there are no detections. Upstream:
// Sam3VideoBase._associate_det_trk.
Association associate_det_trk(Context& ctx, const AssociationConfig& config,
                              const Detections& detections, const Masklets& masklets);

// Whether the middle of a box x0, y0, x1, y1 is less than 0.025 of a side from an edge. Upstream:
// Sam3VideoBase._suppress_detections_close_to_boundary.
bool is_close_to_boundary(std::span<const float, 4> box);

// Masklets whose mask is not empty and has another box than their confident detection: an IoU below
// reconstruction_bbox_iou_thresh, where the score is at least reconstruction_bbox_det_score.
// Upstream: Sam3VideoBase.run_tracker_update_planning_phase.
std::set<std::int64_t> masklets_to_correct(const AssociationConfig& config,
                                           const Detections& detections, const Masklets& masklets,
                                           const Association& association);

// The `most` new detections with the best scores, best first; all of them in their order if they
// are not more. Upstream: Sam3VideoBase._drop_new_det_with_obj_limit.
std::vector<std::int64_t> limit_new_detections(std::vector<std::int64_t> detections,
                                               std::span<const float> scores, std::int64_t most);

}  // namespace sam_rlx
