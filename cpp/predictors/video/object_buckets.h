#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "predictors/video/object_batches.h"

namespace sam_rlx {

// The objects of a batch lie in slots, as many of which as the network takes at once are a bucket:
// it has one memory, and one run of the network follows all of its objects. Objects that come on
// one frame are one batch; those that a text finds later join one of its batches, if it has room
// for all that come on the frame. The slot of an object that is removed stays empty. Upstream:
// sam3/model/multiplex_utils.py, MultiplexState; sam3/model/video_tracking_multiplex_demo.py,
// VideoTrackingMultiplexDemo, and sam3/model/sam3_multiplex_base.py, _tracker_add_new_objects.
class ObjectBuckets final : public ObjectBatches {
 public:
  explicit ObjectBuckets(const ObjectStep& step);

  void join(SessionState& state, TrackedObject& object, const Arrival& arrival) const override;
  void mask_given(SessionState& state, Object& object, std::int64_t frame) const override;
  void before_tracking(SessionState& state) const override;
  void prompt_passed(SessionState& state, Object& object, std::int64_t frame) const override;
  std::vector<FrameOutputPtr> track(Context& ctx, SessionState& state, const TrackStep& step,
                                    const FrameAt& frame) const override;
  void remember(Context& ctx, SessionState& state, const EncodedFrame& frame,
                std::span<const std::int64_t> handles, ConstView masks) const override;
  void remove(SessionState& state, std::int64_t handle) const override;

 private:
  void condition(Context& ctx, SessionState& state, const EncodedFrame& frame,
                 std::span<Conditioned> objects) const override;
  void separate_masks(std::span<Conditioned> objects) const override;
  std::int64_t batch_for(SessionState& state, const TrackedObject& object,
                         const Arrival& arrival) const;
  // Objects with their slots in it, and what came of them.
  struct Bucket {
    Object* bucket = nullptr;
    std::vector<std::size_t> members = {};  // of a list of objects
  };
  static std::vector<Bucket> buckets_of(SessionState& state, std::span<Object* const> objects,
                                        std::int64_t slots);
  std::int64_t slots() const { return step().multiplex()->config.multiplex_count; }
};

}  // namespace sam_rlx
