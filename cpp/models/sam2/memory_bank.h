#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "models/sam2/config.h"

namespace sam_rlx::sam2 {

// Frames have numbers from 0 to below this.
constexpr std::int64_t kMaxFrames = std::int64_t{1} << 40;

// A frame that an object is tracked on, and the outputs that the object has so far.
struct MemoryQuery {
  std::int64_t frame_idx = 0;
  std::int64_t num_frames = 0;  // of the video; when it is not known, any larger number
  bool track_in_reverse = false;
  std::span<const std::int64_t> cond_frames;           // with prompts, in the order they came
  std::function<bool(std::int64_t frame)> is_tracked;  // and has an output without prompts
  // With memory selection: the frames to look at, instead of those just before. The last is the
  // newest.
  std::optional<std::span<const std::int64_t>> chosen_frames = std::nullopt;
  // Every frame with prompts that is not in the future gives a pointer, selected or not; so do
  // tracked frames, and no others.
  bool all_prompts_point = false;
};

// What the frame attends to, in upstream's order. Upstream: sam2/modeling/sam2_base.py,
// SAM2Base._prepare_memory_conditioned_features, and sam2_utils.py, select_closest_cond_frames.
struct MemoryChoice {
  struct Map {
    std::int64_t frame;
    bool conditioning;      // which of the frame's outputs
    std::int64_t tpos_row;  // of maskmem_tpos_enc
    bool operator==(const Map&) const = default;
  };
  struct Pointer {
    std::int64_t frame;
    bool conditioning;
    std::int64_t distance;  // in frames; negative: from the future
    bool operator==(const Pointer&) const = default;
  };
  std::vector<Map> maps;
  std::vector<Pointer> pointers;
  // Distances are divided by this one. Upstream divides by 0 in a video of one frame; here the
  // divisor is at least 1.
  std::int64_t distance_scale = 1;
};

// Raises InvalidArgument when a frame has another number.
MemoryChoice select_memory(const MemoryBankConfig& config, const MemoryQuery& query);

// Of the conditioning frames, at most `limit` (-1: all) that are closest in time.
struct CondFrames {
  std::vector<std::int64_t> selected, unselected;
};
CondFrames select_closest_cond_frames(std::int64_t frame_idx,
                                      std::span<const std::int64_t> cond_frames,
                                      std::int64_t limit);

}  // namespace sam_rlx::sam2
