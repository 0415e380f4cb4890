#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sam_rlx {

// What a propagation does on each frame with the objects that texts name.
struct TextWork {
  enum class Kind {
    kMissing,  // what the frame lacks: a search, or what was clicked since
    kSearch,   // a search, also where there was one before
    kRefined,  // objects that were clicked are tracked again
    kShow,     // nothing: there are results
  };
  Kind kind = Kind::kMissing;
  std::vector<std::int64_t> handles = {};  // of kRefined
};

// What was done with the objects of a text.
struct TextAction {
  enum class Kind { kAdd, kRefine, kRemove, kPropagate };
  Kind kind = Kind::kPropagate;
  // That was clicked, or where the propagation was told to begin.
  std::optional<std::int64_t> frame = {};
  std::vector<std::int64_t> handles = {};
  TextWork::Kind work = TextWork::Kind::kMissing;  // of a propagation
};

// What upstream's next propagation does: the first one searches, and so does the one after it,
// unless it began at an end of the video, since it may go the other way; clicks are followed by one
// that tracks these objects alone; others show what there is. Upstream:
// sam3/model/sam3_video_inference.py, parse_action_history_for_propagation.
TextWork next_text_work(const std::vector<TextAction>& actions,
                        std::optional<std::int64_t> num_frames);

}  // namespace sam_rlx
