#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/image.h"
#include "loading/model.h"
#include "masks/geometry.h"
#include "models/sam2/memory_bank.h"
#include "models/sam2/sam2.h"
#include "predictors/image/image_front_end.h"
#include "predictors/video/frame_cache.h"
#include "predictors/video/memory_rule.h"
#include "predictors/video/tracked_object.h"
#include "predictors/video/video_options.h"

namespace sam_rlx {

// The network of a session: one object on one frame. It keeps no objects; what it gives is kept by
// others. Upstream: sam2/modeling/sam2_base.py, SAM2Base.track_step.
class ObjectStep {
 public:
  // num_frames: none, if the video has no known end.
  ObjectStep(std::shared_ptr<const Model> model, const VideoOptions& options,
             std::optional<std::int64_t> num_frames);

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  const VideoOptions& options() const { return options_; }
  const SessionRules& rules() const { return model_->family().session; }
  const sam2::Sam2Heads& heads() const { return front_end_->heads(); }
  // SAM 3.1: what follows the objects of a bucket, which `heads` only makes; else null.
  const sam3::MultiplexTracker* multiplex() const { return front_end_->multiplex(); }
  const sam2::MemoryBankConfig& memory_bank() const {
    return multiplex() != nullptr ? multiplex()->memory_bank : heads().config.memory_bank;
  }
  std::int64_t side() const { return front_end_->side(); }
  std::optional<std::int64_t> num_frames() const { return num_frames_; }
  // Whether frames come as squares of that side, resized where they were decoded.
  bool wants_squares() const;

  // ---- a frame
  void encode(Context& ctx, const ImageView& image, bool with_detector, EncodedFrame& frame) const;
  // input (S, S, 3), normalized
  void encode_input(Context& ctx, ConstView input, bool with_detector, EncodedFrame& frame) const;

  // ---- an object on it
  struct Target {
    EncodedFrame& frame;
    const TrackedObject& object;
    bool is_init_cond_frame = false;  // a prompt on a frame that was never tracked
    bool reverse = false;
    // Of a session that is run frame by frame, see SteppedObjects: its number of frames now, and
    // every frame with prompts gives a pointer.
    std::optional<std::int64_t> frames_now = {};
    std::optional<Size> video_size = {};  // where an object is tracked
  };
  // points: null, if there are none at all.
  FrameOutput run_points(Context& ctx, const Target& target, const ClickedPoints* points,
                         const FrameOutput* before) const;
  // mask (S, S) of zeros and ones, at the side that the mask downsampler wants. The pointer is that
  // of the single mask, or of the best of several.
  FrameOutput run_mask(Context& ctx, const EncodedFrame& frame, ConstView mask,
                       bool multimask = false) const;
  FrameOutput run_tracking(Context& ctx, const Target& target, bool run_mem_encoder) const;
  // mask: logits of any size.
  struct Seen {
    ConstView mask;
    float object_score_logits = 0.0F;
    bool from_prompt = false;
    bool resizes_logits = false;  // see NewMemory
  };
  SharedTensor encode_memory(Context& ctx, const EncodedFrame& frame, const Seen& seen) const;

  // ---- a bucket on it
  struct BucketTarget {
    EncodedFrame& frame;
    const TrackedObject& bucket;
    std::span<const std::int64_t> slots;  // of the bucket, that hold an object
    bool reverse = false;
  };
  struct BucketStep {
    std::vector<FrameOutput> objects;  // in the order of the slots
    FrameOutput bucket;
  };
  BucketStep run_bucket(Context& ctx, const BucketTarget& target, bool run_mem_encoder) const;
  // obj_ptrs: of the masks, each (C,).
  FrameOutput encode_bucket(Context& ctx, const EncodedFrame& frame,
                            std::span<const sam3::MultiplexTracker::SlotMask> masks,
                            std::span<const SharedTensor> obj_ptrs) const;
  SharedTensor encode_bucket_memory(Context& ctx, const EncodedFrame& frame,
                                    std::span<const sam3::MultiplexTracker::SlotMask> masks) const;

  // ---- what the object attends to
  sam2::MemoryChoice choose_memory(const Target& target) const;
  // Frames of an object that it may remember on another one or later on, however far away.
  std::vector<std::int64_t> far_frames(const TrackedObject& object, std::int64_t frame,
                                       bool reverse) const;

  // ---- outputs at the size of the video
  using Outputs = std::span<const FrameOutput* const>;
  void upscale(Context& ctx, Outputs outputs, Size hw, View out) const;            // (K, H, W)
  void binarize(Context& ctx, Outputs outputs, Size hw, std::uint8_t* out) const;  // (K, H, W)

  // Of the tensors of an output.
  struct OutputShapes {
    Shape maskmem_features, obj_ptr, low_res_mask;
  };
  OutputShapes output_shapes() const;
  OutputShapes bucket_shapes() const;  // of a bucket, whose frames have a map of memory_shape too

 private:
  MemoryRule::Query query_of(const Target& target) const;
  FrameOutput run_ruled(Context& ctx, const Target& target, View features) const;
  View condition(Context& ctx, const Target& target) const;
  ConstView shared_attention(Context& ctx, EncodedFrame& frame) const;
  void keep_bucket_map(EncodedFrame& frame) const;
  View condition_bucket(Context& ctx, const BucketTarget& target) const;
  FrameOutput bucket_output(const EncodedFrame& frame,
                            std::span<const sam3::MultiplexTracker::SlotMask> masks,
                            std::span<const SharedTensor> obj_ptrs) const;
  FrameOutput output_of(const sam2::SamOutputs& outputs) const;
  MaskGeometry mask_geometry(Size hw) const;
  void logits_of(Context& ctx, const FrameOutput& output, Size hw, View out) const;
  void binarize_one(Context& ctx, const FrameOutput& output, Size hw, std::uint8_t* out) const;

  std::shared_ptr<const Model> model_;
  VideoOptions options_;
  std::optional<std::int64_t> num_frames_;
  std::unique_ptr<const ImageFrontEnd> front_end_;
  std::unique_ptr<const MemoryRule> memory_rule_;
  Tensor maskmem_pos_enc_;  // of a memory
};

}  // namespace sam_rlx
