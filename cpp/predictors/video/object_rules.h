#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/context.h"
#include "predictors/video/object_step.h"
#include "predictors/video/session_state.h"

namespace sam_rlx {

// What the objects of a session are to each other. Each method is a moment of the session; the
// family's row says whose rules count.
class ObjectRules {
 public:
  using Object = SessionState::Object;

  // Raises UnsupportedError for options that the rules do not have.
  static std::unique_ptr<const ObjectRules> make(const ObjectStep& step);
  virtual ~ObjectRules() = default;

  // What a mask (H, W) of zeros and ones gives, as a prompt on a frame of a video of size `hw`.
  virtual FrameOutput run_mask(Context& ctx, const EncodedFrame& frame, Size hw,
                               ConstView mask) const = 0;
  // An object has the output of a mask.
  virtual void mask_given(SessionState& /*state*/, Object& /*object*/,
                          std::int64_t /*frame*/) const {}
  // The prompts of an object on a frame are gone.
  virtual void prompts_cleared(SessionState& state, Object& object, std::int64_t frame) const = 0;
  // Encodes the memory of new prompts on a frame.
  virtual void encode_prompts(Context& ctx, SessionState& state,
                              const EncodedFrame& frame) const = 0;
  // Outputs of prompts are about to become what tracking reads.
  virtual void before_tracking(SessionState& /*state*/) const {}
  // Tracking has passed a frame where an object has prompts.
  virtual void prompt_passed(SessionState& /*state*/, Object& /*object*/,
                             std::int64_t /*frame*/) const {}
  // Objects have their outputs of tracking on a frame.
  virtual void tracked(SessionState& /*state*/, std::span<const std::int64_t> /*handles*/,
                       std::int64_t /*frame*/) const {}
  // Takes an object out.
  virtual void remove(SessionState& state, std::int64_t handle) const = 0;

 protected:
  explicit ObjectRules(const ObjectStep& step) : step_(step) {}
  const ObjectStep& step() const { return step_; }

 private:
  const ObjectStep& step_;
};

}  // namespace sam_rlx
