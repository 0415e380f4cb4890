#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "layers/fields.h"
#include "masks/overlap.h"
#include "masks/rle.h"
#include "predictors/concept/concept_detector.h"
#include "predictors/concept/concept_geometry.h"
#include "predictors/concept/text_cache.h"
#include "predictors/video/masklet_association.h"
#include "predictors/video/masklet_hot_start.h"
#include "predictors/video/tracked_objects.h"

namespace sam_rlx {

// Upstream: sam3/model_builder.py, build_sam3_video_model.
struct MaskletConfig {
  NmsThresholds nms;
  AssociationConfig association;
  HotStartConfig hot_start;
  float suppress_overlapping_based_on_recent_occlusion_threshold = 0.7F;
  std::int64_t fill_hole_area = 16;
  std::int64_t max_num_objects = kMaxObjects;
  std::int64_t recondition_every_nth_frame = 16;  // at most 0: never
  std::int64_t refinement_detector_cond_frame_removal_window = 16;
  // Ours, for streams, which go one way: an object that was hidden on more frames than this is
  // forgotten. 0: never, as upstream.
  std::int64_t forget_unseen_after = 0;

  static constexpr std::int64_t kMaxObjects = 10000;

  std::int64_t most_objects() const { return max_num_objects > 0 ? max_num_objects : kMaxObjects; }

  template <class V>
  void fields(V& v) {
    v("nms", nms);
    v("association", association);
    v("hot_start", hot_start);
    v("suppress_overlapping_based_on_recent_occlusion_threshold",
      suppress_overlapping_based_on_recent_occlusion_threshold, -kNoLimit, kNoLimit,
      "mask IoU above which the object that was hidden longer ago goes; 0: none goes");
    v("fill_hole_area", fill_hole_area, 0, kNoLimit, "fill holes of at most so many pixels");
    v("max_num_objects", max_num_objects, -1, kNoLimit, "objects of one text; 0, -1: 10000");
    v("recondition_every_nth_frame", recondition_every_nth_frame, -1, kNoLimit,
      "frames between corrections by findings; 0, -1: never");
    v("refinement_detector_cond_frame_removal_window",
      refinement_detector_cond_frame_removal_window, 0, kNoLimit,
      "frames around a click whose findings no longer condition its object");
    v("forget_unseen_after", forget_unseen_after, 0, kNoLimit,
      "frames after which an object that is hidden is forgotten; 0: never");
  }
};

// A text, or none, and examples on some frames.
struct MaskletPrompt {
  std::vector<std::int64_t> ids;  // of the tokenizer
  // Without one, frames without examples are not searched: `ids` say "visual".
  bool has_text = true;
};
struct MaskletExamples {
  std::vector<double> boxes;         // (B, 4): xyxy in pixels
  std::vector<std::int32_t> labels;  // (B,): 1 for what is meant, 0 for what is not
  bool fractions = false;            // boxes are cx, cy, w, h as fractions of the sides
};

// What one text gave on a frame.
struct MaskletResults {
  std::map<std::int64_t, Rle> masks = {};  // at the size of the video
  std::map<std::int64_t, float> tracker_scores = {};
  std::set<std::int64_t> suppressed;
  std::set<std::int64_t> unconfirmed = {};
  bool reverse = false;  // the search came from later frames
};
using MaskletResultsPtr = std::shared_ptr<const MaskletResults>;

// After a frame was searched: objects that are tracked, and how many new ones were too many.
struct MaskletCounts {
  std::int64_t num_tracked = 0, num_dropped = 0;
};

// All that calls change in a tracker, beside the session. Copies share results.
struct MaskletState {
  std::map<std::int64_t, MaskletExamples> examples;
  std::vector<std::int64_t> obj_ids;
  std::map<std::int64_t, float> scores;
  std::map<std::int64_t, std::int64_t> last_seen;  // frame, by object
  HotStart hot_start;
  LastOccluded last_occluded;
  ByFrame<MaskletResultsPtr> results;
  ByFrame<MaskletCounts> counts;
};

// All objects that one text names, through a video: found on each frame, followed by the tracker.
// Objects and frames are those of a session, which lives longer; several trackers may share them
// and do not influence each other. A call that fails may stop halfway: whoever owns both
// makes them again what they were. Upstream: sam3/model/sam3_video_base.py, Sam3VideoBase, and
// sam3_video_inference.py, Sam3VideoInferenceWithInstanceInteractivity.
class MaskletTracker {
 public:
  // owner: a number of the text, from 0 on.
  MaskletTracker(TrackedObjects& objects, MaskletPrompt prompt, const MaskletConfig& config,
                 std::int64_t owner = 0);

  const MaskletConfig& config() const { return config_; }
  void set_examples(std::int64_t frame, MaskletExamples examples) {
    state_.examples[frame] = std::move(examples);
  }
  // Objects, in the order they were found.
  const std::vector<std::int64_t>& obj_ids() const { return state_.obj_ids; }

  const MaskletState& state() const { return state_; }
  // Back to what another copy was, together with the session.
  void restore(MaskletState state) noexcept { state_ = std::move(state); }

  // ---- one frame, which is in the cache of the video.
  struct Step {
    std::int64_t frame = 0;
    bool reverse = false;
    std::int64_t next_obj_id = 0;  // new objects get this number and those that follow
  };
  // Finds and tracks. Returns how many objects are new.
  std::int64_t det_track_one_frame(const Step& step);
  // Where the time of the last frame went, after its features were there; objects that are new
  // count for the tracker.
  struct Seconds {
    double detector = 0, tracker = 0, association = 0;
  };
  const Seconds& seconds() const { return seconds_; }
  // Tracks `obj_ids`, which were refined, and keeps the results of the others.
  void track_refined(std::int64_t frame, bool reverse, std::span<const std::int64_t> obj_ids);

  // ---- one object. Raises InvalidArgument when it is not known and may not be new, StateError
  // where the frame of the prompt has no results.
  void refine(const PointPrompt& prompt, bool may_be_new = false);
  void remove_object(std::int64_t obj_id);

  // ---- results, one for each frame that was computed.
  bool has_results(std::int64_t frame) const { return state_.results.contains(frame); }
  void drop_results_before(std::int64_t frame);
  // Objects that are seen on a frame, ascending. Those that hot start removed are seen nowhere.
  struct Seen {
    std::vector<std::int64_t> obj_ids = {};
    std::vector<float> scores = {};    // with which probability each was found; 1 if it was refined
    std::vector<PixelBox> boxes = {};  // before masks are cut
    MaskletCounts counts = {};
    Size hw = {};  // of the masks
  };
  Seen seen(std::int64_t frame) const;
  // What is seen, and its masks (K, H, W) of bytes 0 or 1, which do not overlap, in memory that
  // `make_room(seen)` gives.
  using MakeRoom = std::function<std::uint8_t*(const Seen&)>;
  void draw(std::int64_t frame, const MakeRoom& make_room) const;

 private:
  // Masks and scores of the tracker, in the order of the objects.
  struct Propagated {
    View low_res_masks;  // (M, S, S)
    std::vector<float> object_score_logits = {};
  };
  // What is done with the findings of a frame.
  struct Plan {
    Association association;
    std::vector<std::int64_t> new_obj_ids = {};  // of association.new_detections
    std::int64_t num_dropped = 0;                // detections that are too many
    HotStart::Result hot_start = {};
    std::set<std::int64_t> corrected = {};  // objects whose box is not that of their detection
  };

  std::vector<std::int64_t> seen_ids(std::int64_t frame) const;
  const MaskletResults* confirming(std::int64_t frame) const;
  bool is_searched(std::int64_t frame) const;
  FrameDetections run_detection(Context& ctx, std::int64_t frame);
  Propagated run_propagation(Context& ctx, const Step& step);
  Plan make_plan(Context& ctx, const Step& step, const FrameDetections& found,
                 const Propagated& propagated);
  void suppress_overlapping(Context& ctx, const Step& step, const Propagated& propagated,
                            const Plan& plan);
  void recondition(Context& ctx, const Step& step, const FrameDetections& found,
                   const Propagated& propagated, const Plan& plan);
  void update_memories(Context& ctx, std::int64_t frame, ConstView low_res_masks);
  void add_new_objects(Context& ctx, std::int64_t frame, const FrameDetections& found,
                       const Plan& plan);
  void build_outputs(Context& ctx, const Step& step, const FrameDetections& found,
                     const Propagated& propagated, const Plan& plan);
  View input_mask(Context& ctx, ConstView low_res_mask) const;
  // Masks as the tracker has them, with small holes and islands gone: (M, S, S).
  Propagated low_res_masks(Context& ctx, std::int64_t frame,
                           std::span<const std::int64_t> obj_ids) const;
  Rle video_mask(Context& ctx, ConstView low_res_mask) const;
  void forget(std::int64_t obj_id);
  void forget_unseen(std::int64_t frame, const std::set<std::int64_t>& removed);
  void clear_cond_frames_of_detector(std::int64_t obj_id, std::int64_t refined_frame);
  std::vector<std::int64_t> with_batches(std::span<const std::int64_t> obj_ids) const;

  TrackedObjects* objects_;
  MaskletPrompt prompt_;
  MaskletConfig config_;
  std::int64_t owner_;
  bool sam3_1_;  // its rules, where they differ from SAM 3's
  TextCache texts_;
  Seconds seconds_;
  MaskletState state_;
};

}  // namespace sam_rlx
