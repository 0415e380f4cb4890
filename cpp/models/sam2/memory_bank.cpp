#include "models/sam2/memory_bank.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/error.h"

namespace sam_rlx::sam2 {
namespace {

bool contains(std::span<const std::int64_t> frames, std::int64_t frame) {
  return std::find(frames.begin(), frames.end(), frame) != frames.end();
}

void check_frames(std::span<const std::int64_t> frames) {
  for (const std::int64_t frame : frames) {
    if (frame < 0 || frame >= kMaxFrames) {
      fail("frame", "0 to " + std::to_string(kMaxFrames - 1), std::to_string(frame));
    }
  }
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// The frame `steps` >= 1 memories back: the neighbour first, then every stride-th frame.
std::int64_t frame_back(const MemoryQuery& query, std::int64_t steps, std::int64_t stride) {
  const std::int64_t f = query.frame_idx;
  if (steps == 1) return query.track_in_reverse ? f + 1 : f - 1;
  if (query.track_in_reverse) {
    return -floor_divide(-(f + 2), stride) * stride + (steps - 2) * stride;
  }
  return floor_divide(f - 2, stride) * stride - (steps - 2) * stride;
}

// The frame `steps` >= 1 memories back, if there can be one.
std::optional<std::int64_t> memory_frame(const MemoryQuery& query, std::int64_t steps,
                                         std::int64_t stride) {
  if (!query.chosen_frames) return frame_back(query, steps, stride);
  const auto count = static_cast<std::int64_t>(query.chosen_frames->size());
  if (steps > count) return std::nullopt;
  return (*query.chosen_frames)[static_cast<std::size_t>(count - steps)];
}

// The frame of the pointer at a distance; none: there are no more. Of chosen frames upstream leaves
// the oldest out.
std::optional<std::int64_t> pointer_frame(const MemoryQuery& query, std::int64_t distance) {
  if (query.chosen_frames) {
    const auto count = static_cast<std::int64_t>(query.chosen_frames->size());
    if (distance >= count) return std::nullopt;
    return (*query.chosen_frames)[static_cast<std::size_t>(count - distance)];
  }
  const std::int64_t t = query.frame_idx - (query.track_in_reverse ? -distance : distance);
  if (t < 0 || t >= query.num_frames) return std::nullopt;
  return t;
}

// Whether the tracked output of a frame is there, or one with prompts that was not selected: true
// for the latter.
std::optional<bool> find_output(const MemoryQuery& query, const CondFrames& cond,
                                std::int64_t frame) {
  if (query.is_tracked(frame)) return false;
  if (contains(cond.unselected, frame)) return true;
  return std::nullopt;
}

}  // namespace

CondFrames select_closest_cond_frames(std::int64_t frame_idx,
                                      std::span<const std::int64_t> cond_frames,
                                      std::int64_t limit) {
  CondFrames result;
  if (limit == -1 || static_cast<std::int64_t>(cond_frames.size()) <= limit) {
    result.selected.assign(cond_frames.begin(), cond_frames.end());
    return result;
  }
  if (limit < 2) fail("max_cond_frames_in_attn", "-1 or at least 2", std::to_string(limit));
  std::optional<std::int64_t> before, after;
  for (const std::int64_t t : cond_frames) {
    if (t < frame_idx && (!before || t > *before)) before = t;
    if (t >= frame_idx && (!after || t < *after)) after = t;
  }
  if (before) result.selected.push_back(*before);
  if (after) result.selected.push_back(*after);
  std::vector<std::int64_t> rest;
  for (const std::int64_t t : cond_frames) {
    if (!contains(result.selected, t)) rest.push_back(t);
  }
  std::stable_sort(rest.begin(), rest.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - frame_idx) < std::abs(b - frame_idx);
  });
  rest.resize(static_cast<std::size_t>(limit) - result.selected.size());
  result.selected.insert(result.selected.end(), rest.begin(), rest.end());
  for (const std::int64_t t : cond_frames) {
    if (!contains(result.selected, t)) result.unselected.push_back(t);
  }
  return result;
}

MemoryChoice select_memory(const MemoryBankConfig& config, const MemoryQuery& query) {
  check_frames({&query.frame_idx, 1});
  check_frames(query.cond_frames);
  if (query.chosen_frames) check_frames(*query.chosen_frames);
  const CondFrames cond = select_closest_cond_frames(query.frame_idx, query.cond_frames,
                                                     config.max_cond_frames_in_attn);
  MemoryChoice choice;
  const std::int64_t sign = query.track_in_reverse ? -1 : 1;
  for (const std::int64_t t : cond.selected) {
    const std::int64_t distance = (query.frame_idx - t) * sign, last = config.num_maskmem - 1;
    const bool is_near = config.use_maskmem_tpos_v2 && distance > 0 && distance <= last;
    choice.maps.push_back({t, true, is_near ? last - distance : last});
  }
  for (std::int64_t steps = config.num_maskmem - 1; steps >= 1; --steps) {
    const auto t = memory_frame(query, steps, config.memory_temporal_stride_for_eval);
    if (!t) continue;
    if (const auto found = find_output(query, cond, *t)) {
      choice.maps.push_back({*t, *found, steps - 1});
    }
  }

  const std::int64_t max_pointers = std::min(query.num_frames, config.max_obj_ptrs_in_encoder);
  choice.distance_scale = std::max<std::int64_t>(max_pointers - 1, 1);
  const bool in_the_past = config.only_obj_ptrs_in_the_past_for_eval || query.all_prompts_point;
  const std::span<const std::int64_t> pointing =
      query.all_prompts_point ? query.cond_frames : std::span<const std::int64_t>(cond.selected);
  for (const std::int64_t t : pointing) {
    const std::int64_t distance = (query.frame_idx - t) * sign;
    if (in_the_past && distance < 0) continue;
    choice.pointers.push_back(
        {t, true, config.use_signed_tpos_enc_to_obj_ptrs ? distance : std::abs(distance)});
  }
  for (std::int64_t distance = 1; distance < max_pointers; ++distance) {
    const auto t = pointer_frame(query, distance);
    if (!t) break;
    const auto found = find_output(query, cond, *t);
    if (!found || (*found && query.all_prompts_point)) continue;
    choice.pointers.push_back({*t, *found, distance});
  }
  return choice;
}

}  // namespace sam_rlx::sam2
