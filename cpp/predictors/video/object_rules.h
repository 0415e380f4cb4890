#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/context.h"
#include "predictors/video/object_step.h"
#include "predictors/video/session_state.h"

namespace sam_rlx {

// Objects that are tracked on a frame.
struct TrackStep {
  std::int64_t frame = 0;
  bool reverse = false;
  std::span<const std::int64_t> handles;
  bool run_mem_encoder = false;  // else their memory follows, see ObjectRules::remember
};

// What the objects of a session are to each other. Each method is a moment of the session; the
// family's row says whose rules count.
class ObjectRules {
 public:
  using Object = SessionState::Object;

  // Raises UnsupportedError for options that the rules do not have.
  static std::unique_ptr<const ObjectRules> make(const ObjectStep& step);
  virtual ~ObjectRules() = default;

  // A new object gets its batch and its slot, or waits for its first prompt.
  struct Arrival {
    std::optional<std::int64_t> frame = {};  // of its first prompt; none: it has none yet
    std::int64_t together = 1;               // objects of its owner that come on the frame
  };
  virtual void join(SessionState& state, TrackedObject& object, const Arrival& arrival) const;
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
  // Outputs of tracking in the order of the objects; null where the frame conditions others. No
  // object sees what the frame gives for another one. frame: asked for where it is needed.
  using FrameAt = std::function<EncodedFrame&()>;
  virtual std::vector<FrameOutputPtr> track(Context& ctx, SessionState& state,
                                            const TrackStep& step, const FrameAt& frame) const;
  // Memory of the outputs of a frame, made of masks (K, S, S) of logits instead of their own; an
  // object is there where its mask is not empty.
  virtual void remember(Context& ctx, SessionState& state, const EncodedFrame& frame,
                        std::span<const std::int64_t> handles, ConstView masks) const;
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
  // Where memory is made of masks that rules have changed, their areas say whether there is an
  // object. Upstream: Sam3VideoBase._tracker_update_memories.
  static float logit_of_area(ConstView mask);

 private:
  const ObjectStep& step_;
};

}  // namespace sam_rlx
