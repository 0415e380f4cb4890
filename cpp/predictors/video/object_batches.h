#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "predictors/video/object_rules.h"

namespace sam_rlx {

// Objects that were first prompted before the same propagation run as one batch: a frame with a
// prompt for one of them conditions all, and its memory is made of masks that do not overlap. A
// mask given as prompt stays as it is until then. Upstream: sam3/model/sam3_tracking_predictor.py,
// Sam3TrackerPredictor, whose inference state is a batch; it refuses later objects.
class ObjectBatches : public ObjectRules {
 public:
  explicit ObjectBatches(const ObjectStep& step);

  FrameOutput run_mask(Context& ctx, const EncodedFrame& frame, Size hw,
                       ConstView mask) const override;
  void mask_given(SessionState& state, Object& object, std::int64_t frame) const override;
  void prompts_cleared(SessionState& state, Object& object, std::int64_t frame) const override;
  void encode_prompts(Context& ctx, SessionState& state, const EncodedFrame& frame) const override;
  void before_tracking(SessionState& state) const override;
  void prompt_passed(SessionState& state, Object& object, std::int64_t frame) const override;
  void tracked(SessionState& state, std::span<const std::int64_t> handles,
               std::int64_t frame) const override;
  void remove(SessionState& state, std::int64_t handle) const override;

 protected:
  // An object, what it has on a frame, and its mask there, (S, S) of logits.
  struct Conditioned {
    Object* object = nullptr;
    FrameOutput output = {};
    ConstView mask = {};
  };
  // Encodes their memory: they are those of one batch, and their masks do not overlap.
  virtual void condition(Context& ctx, SessionState& state, const EncodedFrame& frame,
                         std::span<Conditioned> objects) const;
  // Masks that were given since the last propagation are about to be encoded.
  virtual void separate_masks(std::span<Conditioned> /*objects*/) const {}
  static std::vector<Object*> members_of(SessionState& state, std::int64_t batch);

 private:
  void encode_batch(Context& ctx, SessionState& state, const EncodedFrame& frame,
                    std::int64_t batch) const;
  void downgrade_batch(SessionState& state, std::int64_t batch, std::int64_t frame) const;
};

}  // namespace sam_rlx
