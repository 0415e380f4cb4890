#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "layers/fields.h"
#include "masks/overlap.h"
#include "predictors/concept/concept_detector.h"
#include "predictors/video/masklet_hot_start.h"
#include "predictors/video/masklet_tracker.h"
#include "predictors/video/stepped_objects.h"

namespace sam_rlx {

// Of MaskletConfig all counts but what Meta's tracker alone has. A detection suppression and a
// fill_hole_area of 0 are transformers without its package `kernels`.
struct SteppedTextsConfig {
  MaskletConfig masklets;
  // Where a confident detection agrees with a masklet, the masklet's own mask conditions it.
  bool recondition_on_trk_masks = true;

  template <class V>
  void fields(V& v) {
    v("masklets", masklets);
    v("high_conf_thresh", masklets.association.high_conf_thresh, -kNoLimit, kNoLimit);
    v("high_iou_thresh", masklets.association.high_iou_thresh, -kNoLimit, kNoLimit);
    v("recondition_on_trk_masks", recondition_on_trk_masks);
  }
};

// All that several texts name in a video whose caller says frame by frame what is run. Objects and
// frames are those of `objects`, which lives longer. A call that fails changes nothing. Upstream,
// whose rules these are: transformers, models/sam3_video/modeling_sam3_video.py, Sam3VideoModel.
class SteppedTexts {
 public:
  SteppedTexts(SteppedObjects& objects, const SteppedTextsConfig& config);

  struct Text {
    std::int64_t number = 0;
    sam3::ConceptPrompt prompt = {};
  };
  struct Call {
    std::int64_t frame = 0;  // was given to `objects` before
    std::int64_t num_frames = 1;
    bool reverse = false;
    bool streaming = false;  // nothing is removed, since later frames are not known
    std::span<const Text> texts = {};
  };
  using ObjIds = std::vector<std::int64_t>;
  using Scores = std::map<std::int64_t, float>;
  struct Found {
    std::map<std::int64_t, Tensor> masks;  // (S, S), logits
    Scores tracker_scores;                 // on this frame
    std::set<std::int64_t> suppressed;     // on this frame
  };
  Found run(const Call& call);

  // All that calls change, beside `objects`.
  struct State {
    ObjIds obj_ids = {};  // of `objects`, in their order
    std::map<std::int64_t, std::int64_t> texts = {};
    Scores scores = {};  // of all there ever were; kRemoved: hot start removed it
    std::int64_t max_obj_id = -1;
    std::set<std::int64_t> removed = {};
    HotStart hot_start = HotStart();
    LastOccluded last_occluded = {};
    ByFrame<Scores> tracker_scores = {};
    ByFrame<std::set<std::int64_t>> suppressed = {};
  };
  const State& state() const { return state_; }
  const SteppedTextsConfig& config() const { return config_; }
  void restore(State state) { state_ = std::move(state); }

  // Whether there was such an object. With the last one go the frames, too.
  bool remove_object(std::int64_t obj_id);
  // Objects go, and what is known of them stays, as upstream.
  void reset_objects();
  // All goes; upstream numbers the objects that come then from 1 on.
  void reset();

 private:
  static constexpr float kRemoved = -1e4F;

  struct Detected {
    FrameDetections found;
    ObjIds texts;  // of each detection
  };
  struct Tracked {
    View masks;  // (M, S, S)
    std::vector<float> logits = {};
  };
  struct Plan {
    Association association;
    ObjIds new_obj_ids = {};  // of association.new_detections
    HotStart::Result hot_start = {};
    std::map<std::int64_t, std::int64_t> reconditioned = {};  // object to its detection
  };

  const Model& model() const { return objects_.step().model(); }
  Found run_frame(const Call& call);
  Detected detect(Context& ctx, const Call& call) const;
  Tracked track(Context& ctx, const Call& call);
  Plan make_plan(Context& ctx, const Call& call, const Detected& detected, const Tracked& tracked);
  void update_memories(Context& ctx, const Call& call, const Plan& plan, const Detected& detected,
                       const Tracked& tracked);
  void add_objects(Context& ctx, const Call& call, const Plan& plan, const Detected& detected);
  Found build_outputs(const Call& call, const Plan& plan, const Detected& detected,
                      const Tracked& tracked);
  // Gives the masks of each text and their objects to `change`, as if there were no others.
  template <class Change>
  void by_text(Context& ctx, View masks, const Change& change) const;

  SteppedObjects& objects_;
  SteppedTextsConfig config_;
  State state_;
};

}  // namespace sam_rlx
