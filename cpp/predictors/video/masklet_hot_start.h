#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "layers/fields.h"
#include "predictors/video/masklet_association.h"

namespace sam_rlx {

// Upstream: sam3/model_builder.py, build_sam3_video_model.
struct HotStartConfig {
  std::int64_t hotstart_delay =
      15;  // frames after its first one, in which a masklet can be removed
  std::int64_t hotstart_unmatch_thresh = 8;  // frames without a detection
  std::int64_t hotstart_dup_thresh = 8;      // frames on which an earlier masklet has the same one
  bool suppress_unmatched_only_within_hotstart = true;
  std::int64_t init_trk_keep_alive = 30;
  std::int64_t max_trk_keep_alive = 30;
  std::int64_t min_trk_keep_alive = -1;
  bool decrease_trk_keep_alive_for_empty_masklets = false;
  bool masklet_confirmation_enable = false;
  std::int64_t masklet_confirmation_consecutive_det_thresh = 3;

  template <class V>
  void fields(V& v) {
    v("hotstart_delay", hotstart_delay, 0, kNoLimit,
      "frames in which a new object may turn out to be none");
    v("hotstart_unmatch_thresh", hotstart_unmatch_thresh, -kNoLimit, kNoLimit,
      "of these, frames without a finding that remove it");
    v("hotstart_dup_thresh", hotstart_dup_thresh, -kNoLimit, kNoLimit,
      "of these, frames with the finding of an earlier object that remove it");
    v("suppress_unmatched_only_within_hotstart", suppress_unmatched_only_within_hotstart);
    v("init_trk_keep_alive", init_trk_keep_alive, -kNoLimit, kNoLimit);
    v("max_trk_keep_alive", max_trk_keep_alive, -kNoLimit, kNoLimit);
    v("min_trk_keep_alive", min_trk_keep_alive, -kNoLimit, kNoLimit);
    v("decrease_trk_keep_alive_for_empty_masklets", decrease_trk_keep_alive_for_empty_masklets);
    v("masklet_confirmation_enable", masklet_confirmation_enable,
      "show an object once it was found on several frames in a row");
    v("masklet_confirmation_consecutive_det_thresh", masklet_confirmation_consecutive_det_thresh, 1,
      10000, "there, how many; its frames just before count as well");
  }
};

// Which masklets were an error of the detector: those that it does not see again soon, and those
// that turn out to be another one. Upstream: Sam3VideoBase._process_hotstart.
class HotStart {
 public:
  // SAM 3.1: of masklets with one detection each that came on an earlier frame is the other one of
  // those behind it, and none of those that came together. Upstream:
  // sam3/model/sam3_multiplex_base.py, _process_hotstart_gpu.
  explicit HotStart(const HotStartConfig& config = {}, bool sam3_1 = false)
      : config_(config), sam3_1_(sam3_1) {}

  struct Frame {
    std::int64_t frame_idx = 0;
    bool reverse = false;
    const Association& association;
    std::span<const std::int64_t> new_obj_ids;
    bool only_counts = false;  // nothing is removed or hidden
  };
  struct Result {
    std::set<std::int64_t> removed;     // on this frame, for good
    std::set<std::int64_t> suppressed;  // hidden on this frame
  };
  Result process(const Frame& frame);

  // The user has clicked on this masklet, new or not: it is not removed.
  void confirm(std::int64_t obj_id, std::int64_t frame_idx);
  // Of a masklet that is no longer tracked, where frames only go forwards: nothing is left of it.
  void forget(std::int64_t obj_id);
  // Those that were never found on so many frames in a row as the options say, nor clicked.
  // Upstream: sam3/model/sam3_multiplex_base.py, update_masklet_confirmation_status.
  std::set<std::int64_t> unconfirmed() const;
  // Upstream's trk_keep_alive: falls without a detection, rises with one.
  std::int64_t keep_alive(std::int64_t obj_id) const { return keep_alive_.at(obj_id); }

 private:
  bool is_within(std::int64_t obj_id, const Frame& frame) const;
  bool is_earlier(std::int64_t obj_id, std::int64_t other, const Frame& frame) const;
  void confirm_found(const std::set<std::int64_t>& matched, const Frame& frame);
  void count_matches(const Frame& frame);
  void count_duplicates(const Frame& frame);
  void remove_unmatched(const Frame& frame, Result& result) const;
  void remove_duplicates(const Frame& frame, Result& result) const;

  HotStartConfig config_;
  bool sam3_1_ = false;
  std::map<std::int64_t, std::int64_t> first_frame_;
  std::map<std::int64_t, std::int64_t> keep_alive_;
  std::map<std::int64_t, std::int64_t> unmatched_frames_;  // how many
  // (earlier masklet, later one) to the number of frames on which they had one detection.
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> overlaps_;
  std::map<std::int64_t, std::int64_t> in_a_row_;  // frames with a detection, up to this one
  std::set<std::int64_t> removed_, clicked_, confirmed_;
};

}  // namespace sam_rlx
