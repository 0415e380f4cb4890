#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "predictors/video/box_motion.h"
#include "predictors/video/recent_areas.h"

namespace sam_rlx {

// What a memory rule knows of an object after a frame: what follows from the frames up to there.
struct RuleState {
  // SAMURAI
  std::int64_t stable_frames = 0;  // 0: the motion begins with the next mask
  BoxMotion motion = {};
  bool is_off_path = false;  // the mask of the frame does not touch the predicted box
  // DAM4SAM
  RecentAreas areas = {};
  std::optional<std::int64_t> last_added = {};  // frame

  // As many numbers for any state, for files; none for numbers that are no state.
  static constexpr std::int64_t kNumbers = 24 + 2 * static_cast<std::int64_t>(RecentAreas::kAreas);
  std::vector<double> numbers() const;
  static std::optional<RuleState> of(const double* numbers);
};
using RuleStatePtr = std::shared_ptr<const RuleState>;

}  // namespace sam_rlx
