#include "predictors/video/masklet_hot_start.h"

#include <algorithm>

namespace sam_rlx {

HotStart::Result HotStart::process(const Frame& frame) {
  for (const std::int64_t obj_id : frame.new_obj_ids) {
    first_frame_.emplace(obj_id, frame.frame_idx);
    keep_alive_[obj_id] = config_.init_trk_keep_alive;
  }
  count_matches(frame);
  count_duplicates(frame);
  Result result;
  if (frame.only_counts) return result;
  remove_unmatched(frame, result);
  remove_duplicates(frame, result);
  removed_.insert(result.removed.begin(), result.removed.end());
  return result;
}

void HotStart::confirm(std::int64_t obj_id, std::int64_t frame_idx) {
  clicked_.insert(obj_id);
  confirmed_.insert(obj_id);
  first_frame_.emplace(obj_id, frame_idx);
  keep_alive_.emplace(obj_id, config_.init_trk_keep_alive);
}

void HotStart::forget(std::int64_t obj_id) {
  first_frame_.erase(obj_id);
  keep_alive_.erase(obj_id);
  unmatched_frames_.erase(obj_id);
  removed_.erase(obj_id);
  clicked_.erase(obj_id);
  confirmed_.erase(obj_id);
  in_a_row_.erase(obj_id);
  std::erase_if(overlaps_, [&](const auto& entry) {
    return entry.first.first == obj_id || entry.first.second == obj_id;
  });
}

// Whether a masklet is so young that it can be removed.
bool HotStart::is_within(std::int64_t obj_id, const Frame& frame) const {
  if (clicked_.contains(obj_id)) return false;
  const std::int64_t first = first_frame_.at(obj_id);
  return frame.reverse ? first < frame.frame_idx + config_.hotstart_delay
                       : first > frame.frame_idx - config_.hotstart_delay;
}

bool HotStart::is_earlier(std::int64_t obj_id, std::int64_t other, const Frame& frame) const {
  const std::int64_t a = first_frame_.at(obj_id), b = first_frame_.at(other);
  return frame.reverse ? a > b : a < b;
}

std::set<std::int64_t> HotStart::unconfirmed() const {
  std::set<std::int64_t> out;
  if (!config_.masklet_confirmation_enable) return out;
  for (const auto& [obj_id, frames] : in_a_row_) {
    if (!confirmed_.contains(obj_id)) out.insert(obj_id);
  }
  return out;
}

void HotStart::confirm_found(const std::set<std::int64_t>& matched, const Frame& frame) {
  for (auto& [obj_id, frames] : in_a_row_) frames = matched.contains(obj_id) ? frames + 1 : 0;
  for (const std::int64_t obj_id : frame.new_obj_ids) in_a_row_[obj_id] = 1;
  for (const auto& [obj_id, frames] : in_a_row_) {
    if (frames >= config_.masklet_confirmation_consecutive_det_thresh) confirmed_.insert(obj_id);
  }
}

void HotStart::count_matches(const Frame& frame) {
  std::set<std::int64_t> matched;
  for (const auto& obj_ids : frame.association.matched) {
    matched.insert(obj_ids.begin(), obj_ids.end());
  }
  confirm_found(matched, frame);
  const auto decrease = [&](std::int64_t obj_id) {
    std::int64_t& alive = keep_alive_[obj_id];
    alive = std::max(config_.min_trk_keep_alive, alive - 1);
  };
  for (const std::int64_t obj_id : matched) {
    std::int64_t& alive = keep_alive_[obj_id];
    alive = std::min(config_.max_trk_keep_alive, alive + 1);
  }
  for (const std::int64_t obj_id : frame.association.unmatched) {
    ++unmatched_frames_[obj_id];
    decrease(obj_id);
  }
  if (!config_.decrease_trk_keep_alive_for_empty_masklets) return;
  for (const std::int64_t obj_id : frame.association.empty) decrease(obj_id);
}

void HotStart::count_duplicates(const Frame& frame) {
  for (const auto& obj_ids : frame.association.matched) {
    if (obj_ids.size() < 2) continue;
    if (sam3_1_) {
      for (std::size_t j = 1; j < obj_ids.size(); ++j) {
        for (std::size_t i = 0; i < j; ++i) ++overlaps_[{obj_ids[i], obj_ids[j]}];
      }
      continue;
    }
    // Of masklets with the same first frame, the first in the list counts as the earlier one.
    const std::int64_t first =
        *std::min_element(obj_ids.begin(), obj_ids.end(),
                          [&](std::int64_t a, std::int64_t b) { return is_earlier(a, b, frame); });
    for (const std::int64_t obj_id : obj_ids) {
      if (obj_id != first) ++overlaps_[{first, obj_id}];
    }
  }
}

void HotStart::remove_unmatched(const Frame& frame, Result& result) const {
  for (const auto& [obj_id, frames] : unmatched_frames_) {
    if (removed_.contains(obj_id)) continue;
    if (frames >= config_.hotstart_unmatch_thresh && is_within(obj_id, frame)) {
      result.removed.insert(obj_id);
    } else if (keep_alive_.at(obj_id) <= 0 && !config_.suppress_unmatched_only_within_hotstart) {
      result.suppressed.insert(obj_id);
    }
  }
}

void HotStart::remove_duplicates(const Frame& frame, Result& result) const {
  for (const auto& [pair, frames] : overlaps_) {
    const std::int64_t obj_id = pair.second;
    if (removed_.contains(obj_id) || !is_within(obj_id, frame)) continue;
    if (sam3_1_ && !is_earlier(pair.first, obj_id, frame)) continue;
    if (frames >= config_.hotstart_dup_thresh) result.removed.insert(obj_id);
  }
}

}  // namespace sam_rlx
