#include "predictors/video/distractor_memory.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "masks/components.h"
#include "masks/rle.h"

namespace sam_rlx {
namespace {

// Released values. Upstream: dam4sam_tracker.py, sam2/sam21pp_hiera_l.yaml.
constexpr std::int64_t kMaxCondFrames = 4;
constexpr std::int64_t kStride = 5;
constexpr double kAddedIou = 0.8;
constexpr double kSmallestShare = 0.8, kLargestShare = 1.2;  // of the median area
constexpr std::int64_t kFramesBetween = 5;
constexpr double kLargestOverlap = 0.7;

using Query = MemoryRule::Query;
using Frames = std::vector<std::int64_t>;
using Bytes = std::vector<std::uint8_t>;

bool holds(const Frames& frames, std::int64_t frame) {
  return std::find(frames.begin(), frames.end(), frame) != frames.end();
}

bool is_seen(const FrameOutput& output) {
  const ConstView mask = output.low_res_mask;
  return std::any_of(mask.data, mask.data + mask.numel(), [](float logit) { return logit > 0.0F; });
}

// ---------------------------------------------------------------- which frames

// Conditioning frames: the nearest behind the neighbour, the first with prompts, and the nearest of
// the rest; never the neighbour, unless it is the first.
struct Conditioning {
  Frames selected, unselected;
};

Conditioning select_conditioning(const Query& query) {
  const FrameOutputs& outputs = query.object.cond_frame_outputs;
  Frames all;
  for (const std::int64_t t : outputs.frames_by_arrival()) {
    // A click on a frame that was added does not see what was remembered of it.
    if (t != query.frame || !outputs.find(t)->is_added) all.push_back(t);
  }
  Conditioning cond;
  std::optional<std::int64_t> behind;
  for (const std::int64_t t : all) {
    const std::int64_t distance = query.distance(t);
    if (distance > 1 && (!behind || distance < query.distance(*behind))) behind = t;
  }
  if (behind) cond.selected.push_back(*behind);
  const std::optional<std::int64_t> first = first_prompted(query.object, query.reverse);
  if (first && !holds(cond.selected, *first)) cond.selected.push_back(*first);
  Frames rest;
  for (const std::int64_t t : all) {
    if (!holds(cond.selected, t) && query.distance(t) != 1) rest.push_back(t);
  }
  std::stable_sort(rest.begin(), rest.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a - query.frame) < std::abs(b - query.frame);
  });
  const auto most = static_cast<std::size_t>(std::min(kMaxCondFrames, query.bank.num_maskmem));
  for (const std::int64_t t : rest) {
    if (cond.selected.size() < most) cond.selected.push_back(t);
  }
  for (const std::int64_t t : all) {
    if (!holds(cond.selected, t)) cond.unselected.push_back(t);
  }
  return cond;
}

std::int64_t floor_to_stride(std::int64_t t) { return t - ((t % kStride) + kStride) % kStride; }

// At most `count` frames that show the object, the newest first: the neighbour, or else the next
// behind it, and behind that one those whose number is a multiple of the stride.
Frames recent_frames(const Query& query, const Conditioning& cond, std::int64_t count) {
  const TrackedObject& object = query.object;
  const FrameOutputs& outputs = object.non_cond_frame_outputs;
  Frames frames;
  if (count < 1) return frames;
  const std::int64_t sign = query.sign(), neighbour = query.frame - sign;
  const FrameOutput* const added =
      holds(cond.selected, neighbour) ? nullptr : object.cond_frame_outputs.find(neighbour);
  if (added != nullptr && is_seen(*added)) frames.push_back(neighbour);

  const auto is_remembered = [&](std::int64_t t) {
    const FrameOutput* const output = outputs.find(t);
    return output != nullptr && is_seen(*output);
  };
  if (outputs.empty()) return frames;
  const std::int64_t oldest = query.reverse ? (--outputs.end())->frame : outputs.begin()->frame;
  const auto is_inside = [&](std::int64_t t) { return (t - oldest) * sign >= 0; };
  for (std::int64_t t = neighbour; frames.empty() && is_inside(t); t -= sign) {
    if (is_remembered(t)) frames.push_back(t);
  }
  if (frames.empty()) return frames;
  const std::int64_t behind = frames.front() - sign;
  std::int64_t t = query.reverse ? -floor_to_stride(-behind) : floor_to_stride(behind);
  for (; static_cast<std::int64_t>(frames.size()) < count && is_inside(t); t -= sign * kStride) {
    if (is_remembered(t)) frames.push_back(t);
  }
  return frames;
}

// ---------------------------------------------------------------- what is like the object

// Around the largest of the 8-connected parts, the first of equal ones.
std::optional<PixelBox> largest_part(const Bytes& mask, std::int64_t height, std::int64_t width) {
  const Components parts = find_components(encode_rle(mask.data(), height, width, width), true);
  if (parts.areas.empty()) return std::nullopt;
  const auto largest = std::max_element(parts.areas.begin(), parts.areas.end());
  const auto label = static_cast<std::int32_t>(largest - parts.areas.begin());
  std::optional<PixelBox> box;
  for (const Segment& segment : parts.segments) {
    if (segment.label != label) continue;
    if (!box) box = PixelBox{segment.x, segment.y0, segment.x, segment.y1};
    box = PixelBox{
        std::min<std::int64_t>(box->x0, segment.x), std::min<std::int64_t>(box->y0, segment.y0),
        std::max<std::int64_t>(box->x1, segment.x), std::max<std::int64_t>(box->y1, segment.y1)};
  }
  return box;
}

PixelBox around(const PixelBox& a, const PixelBox& b) {
  return {std::min(a.x0, b.x0), std::min(a.y0, b.y0), std::max(a.x1, b.x1), std::max(a.y1, b.y1)};
}

// IoU of a box with one around it, both without their last row and column of pixels, as upstream's
// boxes are; 1 if nothing or a line is left of the larger one. Upstream: vot-toolkit 0.7.1,
// Mask.convert and calculate_overlap.
double share_of_box(const PixelBox& inner, const PixelBox& outer) {
  const std::int64_t width = outer.x1 - outer.x0, height = outer.y1 - outer.y0;
  if (width < 2 || height < 2) return 1.0;
  const std::int64_t area = (inner.x1 - inner.x0) * (inner.y1 - inner.y0);
  return static_cast<double>(area) / static_cast<double>(width * height);
}

}  // namespace

// ---------------------------------------------------------------- the rule

// Conditioning frames have the last row of the temporal encoding, others the rows from the newest
// on. Pointers: of frames that show the object. Their distances are divided by what the number of
// frames so far allows.
sam2::MemoryChoice DistractorMemory::choose_memory(const Query& query) const {
  const TrackedObject& object = query.object;
  const Conditioning cond = select_conditioning(query);
  const std::int64_t rows = query.bank.num_maskmem;
  const Frames recent =
      recent_frames(query, cond, rows - static_cast<std::int64_t>(cond.selected.size()));
  sam2::MemoryChoice choice;
  for (const std::int64_t t : cond.selected) choice.maps.push_back({t, true, rows - 1});
  for (std::size_t k = recent.size(); k-- > 0;) {
    const bool is_added = object.non_cond_frame_outputs.find(recent[k]) == nullptr;
    choice.maps.push_back({recent[k], is_added, static_cast<std::int64_t>(k)});
  }

  const std::int64_t first = first_prompted(object, query.reverse).value_or(query.frame);
  const std::int64_t so_far = std::abs(query.frame - first) + 1;
  const std::int64_t most = std::min(so_far, query.bank.max_obj_ptrs_in_encoder);
  choice.distance_scale = std::max<std::int64_t>(most - 1, 1);
  for (const std::int64_t t : cond.selected) {
    if (query.bank.only_obj_ptrs_in_the_past_for_eval && query.distance(t) < 0) continue;
    choice.pointers.push_back({t, true, std::abs(query.distance(t))});
  }
  for (std::int64_t distance = 1; distance < most; ++distance) {
    const std::int64_t t = query.frame - distance * query.sign();
    if (const FrameOutput* const tracked = object.non_cond_frame_outputs.find(t)) {
      if (is_seen(*tracked)) choice.pointers.push_back({t, false, distance});
    } else if (holds(cond.unselected, t) && is_seen(*object.cond_frame_outputs.find(t))) {
      choice.pointers.push_back({t, true, distance});
    }
  }
  return choice;
}

std::vector<std::int64_t> DistractorMemory::far_frames(const Query& query) const {
  const Conditioning cond = select_conditioning(query);
  Frames frames = recent_frames(query, cond, query.bank.num_maskmem - 1);
  frames.insert(frames.end(), cond.selected.begin(), cond.selected.end());
  return frames;
}

bool DistractorMemory::adds_frame(const Tracked& tracked, RuleState& state) const {
  const Bytes shown = tracked.at_video_size(tracked.chosen);
  const std::int64_t pixels = std::count(shown.begin(), shown.end(), 1);
  state.areas.add(pixels);
  if (pixels < 1 || state.areas.count() < 2) return false;
  const float iou = tracked.masks.iou_predictions[static_cast<std::size_t>(tracked.chosen)];
  const double share = static_cast<double>(pixels) / *state.areas.median();
  const bool is_soon =
      state.last_added && std::abs(tracked.frame - *state.last_added) <= kFramesBetween;
  if (!(double{iou} > kAddedIou) || share < kSmallestShare || share > kLargestShare || is_soon) {
    return false;
  }
  const PixelBox box =
      rle_box(encode_rle(shown.data(), tracked.height, tracked.width, tracked.width));
  for (std::int64_t i = 0; i < tracked.masks.logits.shape[0]; ++i) {
    if (i == tracked.chosen) continue;
    Bytes outside = tracked.at_video_size(i);
    std::transform(outside.begin(), outside.end(), shown.begin(), outside.begin(),
                   [](std::uint8_t other, std::uint8_t taken) {
                     return static_cast<std::uint8_t>(taken != 0 ? 0 : other);
                   });
    const std::optional<PixelBox> part = largest_part(outside, tracked.height, tracked.width);
    if (!part || share_of_box(box, around(box, *part)) > kLargestOverlap) continue;
    state.last_added = tracked.frame;
    return true;
  }
  return false;
}

}  // namespace sam_rlx
