#include <algorithm>

#include "core/error.h"
#include "masks/overlap.h"
#include "ops/elementwise.h"
#include "predictors/video/video_session.h"

// What texts do with their objects. Upstream: sam3/model/sam3_video_base.py, Sam3VideoBase.

namespace sam_rlx {
namespace {

// Where memory is made of masks that rules have changed, their areas say whether there is an
// object. Upstream: _tracker_update_memories.
constexpr float kVisibleLogit = 10.0F;

}  // namespace

void VideoSession::enable_detector() {
  model_->require_text("add_text");
  state_.with_detector = true;
}

const EncodedFrame& VideoSession::frame_for_detector(std::int64_t index) {
  if (has_frame(index)) return *state_.frames.find(index);
  fail<StateError>("propagate", "frame " + std::to_string(index) + " given before", "none");
}

void VideoSession::add_masklet(std::int64_t frame, std::int64_t handle, ConstView mask) {
  add_mask(frame, handle, mask);
  claim(handle);
}

void VideoSession::claim(std::int64_t handle) {
  known_object(handle, "add_prompt").is_masklet = true;
}

void VideoSession::track_masklets(const MaskletStep& step) {
  std::vector<TrackedObject*> objects;
  for (const std::int64_t handle : step.handles) {
    objects.push_back(&known_object(handle, "propagate"));
  }
  track_objects(objects, step.frame, step.reverse, step.run_mem_encoder);
}

void VideoSession::remember_masklets(std::int64_t index, std::span<const std::int64_t> handles,
                                     ConstView masks) {
  const EncodedFrame& frame = cached_frame(index, "propagate");
  Context ctx = context();
  for (std::size_t k = 0; k < handles.size(); ++k) {
    const Workspace::Scope scratch(ctx.workspace);
    const ConstView mask = masks[static_cast<std::int64_t>(k)];
    const bool visible =
        std::any_of(mask.data, mask.data + mask.numel(), [](float logit) { return logit > 0.0F; });
    const View features = heads().encode_new_memory(
        ctx, {.pix_feat = frame.features.embedding,
              .mask = mask,
              .object_score_logits = visible ? kVisibleLogit : -kVisibleLogit});
    if (options_.bfloat16_memory) round_to_bfloat16_(features);
    const SharedTensor memory = Tensor::copy_of(features);
    TrackedObject& object = known_object(handles[k], "propagate");
    const auto tracked = object.non_cond_frame_outputs.find(index);
    FrameOutput* const outputs[] = {
        object.cond_frame_outputs.find(index),
        tracked == object.non_cond_frame_outputs.end() ? nullptr : tracked->second.get()};
    for (FrameOutput* const output : outputs) {
      if (output == nullptr) continue;
      output->maskmem_features = memory;
    }
  }
}

}  // namespace sam_rlx
