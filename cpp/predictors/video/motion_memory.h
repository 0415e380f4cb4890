#pragma once

#include <string>
#include <vector>

#include "predictors/video/memory_rule.h"

namespace sam_rlx {

// SAMURAI: the mask is chosen by how the object moved too, and of tracked frames those are
// remembered whose masks are good and fit the motion. Upstream: yangchris11/samurai,
// sam2/sam2/modeling/sam2_base.py.
class MotionMemory : public MemoryRule {
 public:
  explicit MotionMemory(const std::string& variant);

  // Pointers are upstream's.
  sam2::MemoryChoice choose_memory(const Query& query) const override;
  std::vector<std::int64_t> far_frames(const Query& query) const override;
  float min_object_score() const override;
  bool sees_masks() const override { return true; }
  std::int64_t choose_mask(Context& ctx, const Masks& masks, RuleState& state) const override;
  RuleStatePtr after_prompt(Context& ctx, ConstView mask, std::int64_t side) const override;

 private:
  double motion_weight_;
};

}  // namespace sam_rlx
