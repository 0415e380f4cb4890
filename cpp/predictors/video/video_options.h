#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/image.h"
#include "layers/fields.h"
#include "loading/session_rules.h"

namespace sam_rlx {

struct VideoOptions {
  std::int64_t fill_hole_area = 8;  // 0: holes stay
  bool non_overlap_masks = false;
  // A prompt on a frame that was tracked already makes it a conditioning frame, so that the
  // correction outlives the next propagation. Upstream's default is false for SAM 2; SAM 3 knows
  // true only.
  bool add_all_frames_to_correct_as_cond = true;
  // SAM 3 only: of tracked frames, those that show the objects well are remembered, not the last
  // ones.
  bool use_memory_selection = false;
  // SAM 2 only: a rule of memory that another program has, see MemoryRule. Empty: upstream's.
  std::string memory_rule = {};
  // How frames become as large as the model wants them. Not given: as upstream's loader of such
  // frames does.
  std::optional<Resize> resize = {};
  FrameKind frames = FrameKind::kImages;
  // Upstream rounds stored memory to bfloat16.
  bool bfloat16_memory = false;
  // Outputs of so many frames around the last one are kept, and at least those that tracking
  // reads; outputs near prompts too. -1: all, as upstream.
  std::int64_t history = 64;
  // Frames come one by one and are never asked for again: only what tracking reads is kept.
  bool streaming = false;

  template <class V>
  void fields(V& v) {
    v("fill_hole_area", fill_hole_area, 0, kNoLimit, "fill holes of at most so many pixels");
    v("non_overlap_masks", non_overlap_masks,
      "where masks overlap, the one with the largest logit stays");
    v("add_all_frames_to_correct_as_cond", add_all_frames_to_correct_as_cond,
      "a prompt on a frame that was tracked before outlives the next propagation");
    v("use_memory_selection", use_memory_selection,
      "remember the frames that show the objects well, not the last ones");
    v("memory_rule", memory_rule, "which frames, and which of several masks, are remembered");
    v("bfloat16_memory", bfloat16_memory, "round stored memory to bfloat16");
    v("history", history, -1, kNoLimit, "keep results of so many frames; -1: all");
    v("streaming", streaming, "frames are never asked for again");
  }
};

}  // namespace sam_rlx
