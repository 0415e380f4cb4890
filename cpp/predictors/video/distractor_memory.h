#pragma once

#include <vector>

#include "predictors/video/memory_rule.h"

namespace sam_rlx {

// DAM4SAM: a frame on which another mask reaches far outside the one that was taken, so that there
// is something like the object, conditions later frames as a frame with prompts does. Of other
// frames the last and then every fifth one is remembered, where the object is seen. Upstream:
// jovanavidenovic/DAM4SAM, dam4sam_tracker.py and sam2/modeling/sam2_base.py.
class DistractorMemory : public MemoryRule {
 public:
  sam2::MemoryChoice choose_memory(const Query& query) const override;
  std::vector<std::int64_t> far_frames(const Query& query) const override;
  bool sees_masks() const override { return true; }
  bool adds_frame(const Tracked& tracked, RuleState& state) const override;
};

}  // namespace sam_rlx
