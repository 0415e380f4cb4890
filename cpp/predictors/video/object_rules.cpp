#include "predictors/video/object_rules.h"

#include <algorithm>

#include "core/error.h"
#include "ops/resize_antialias.h"
#include "predictors/video/object_batches.h"
#include "predictors/video/object_buckets.h"

namespace sam_rlx {
namespace {

// A mask prompt of another size is resized, and is one from here on. Upstream: add_new_mask.
constexpr float kResizedMaskThreshold = 0.5F;

// Each object is alone. Upstream: sam2/sam2_video_predictor.py, SAM2VideoPredictor.
class ObjectsAlone : public ObjectRules {
 public:
  explicit ObjectsAlone(const ObjectStep& step) : ObjectRules(step) {
    if (step.options().use_memory_selection) {
      fail<UnsupportedError>("use_memory_selection", "false with SAM 2", "true");
    }
  }

  FrameOutput run_mask(Context& ctx, const EncodedFrame& frame, Size /*hw*/,
                       ConstView mask) const override {
    const std::int64_t size = step().side();
    if (mask.shape != Shape{size, size}) {
      const View resized = ctx.workspace.floats({1, size, size});
      resize_bilinear_antialias(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), resized);
      std::transform(resized.data, resized.data + resized.numel(), resized.data,
                     [](float value) { return value >= kResizedMaskThreshold ? 1.0F : 0.0F; });
      mask = resized[0];
    }
    return step().run_mask(ctx, frame, mask);
  }

  void prompts_cleared(SessionState& /*state*/, Object& object, std::int64_t frame) const override {
    TrackedObject& target = object.write();
    target.downgrade(frame);
    if (!first_prompted(target, false)) target.forget_added(0, false);
  }

  void encode_prompts(Context& ctx, SessionState& state, const EncodedFrame& frame) const override {
    for (Object& object : state.objects) {
      for (FrameOutputs TrackedObject::* const outputs :
           {&TrackedObject::temp_cond, &TrackedObject::temp_non_cond}) {
        const FrameOutput* const output = ((*object).*outputs).find(frame.index);
        if (output == nullptr || output->has_memory()) continue;
        ctx.check_interrupt();
        const SharedTensor memory =
            step().encode_memory(ctx, frame,
                                 {.mask = output->low_res_mask,
                                  .object_score_logits = output->object_score_logits,
                                  .from_prompt = true});
        (object.write().*outputs).change(frame.index, [&](FrameOutput& changed) {
          changed.maskmem_features = memory;
        });
      }
    }
  }

  void remove(SessionState& state, std::int64_t handle) const override {
    std::erase_if(state.objects, [&](const Object& object) { return object->handle == handle; });
  }
};

}  // namespace

void ObjectRules::join(SessionState& state, TrackedObject& object,
                       const Arrival& /*arrival*/) const {
  object.batch = state.open_batch;
  object.slot = 0;
}

std::vector<FrameOutputPtr> ObjectRules::track(Context& ctx, SessionState& state,
                                               const TrackStep& step, const FrameAt& frame) const {
  std::vector<FrameOutputPtr> outputs;
  for (const std::int64_t handle : step.handles) {
    const TrackedObject& object = **state.find(handle);
    outputs.push_back(nullptr);
    if (object.keeps_output(step.frame)) continue;
    ctx.check_interrupt();
    const ObjectStep::Target target{
        .frame = frame(), .object = object, .reverse = step.reverse, .video_size = state.orig_hw};
    outputs.back() =
        std::make_shared<const FrameOutput>(step_.run_tracking(ctx, target, step.run_mem_encoder));
  }
  return outputs;
}

void ObjectRules::remember(Context& ctx, SessionState& state, const EncodedFrame& frame,
                           std::span<const std::int64_t> handles, ConstView masks) const {
  for (std::size_t k = 0; k < handles.size(); ++k) {
    const ConstView mask = masks[static_cast<std::int64_t>(k)];
    const SharedTensor memory =
        step_.encode_memory(ctx, frame, {.mask = mask, .object_score_logits = logit_of_area(mask)});
    TrackedObject& object = state.find(handles[k])->write();
    for (FrameOutputs* outputs : {&object.cond_frame_outputs, &object.non_cond_frame_outputs}) {
      outputs->change(frame.index, [&](FrameOutput& output) { output.maskmem_features = memory; });
    }
  }
}

float ObjectRules::logit_of_area(ConstView mask) {
  constexpr float kVisibleLogit = 10.0F;
  const bool visible =
      std::any_of(mask.data, mask.data + mask.numel(), [](float logit) { return logit > 0.0F; });
  return visible ? kVisibleLogit : -kVisibleLogit;
}

std::unique_ptr<const ObjectRules> ObjectRules::make(const ObjectStep& step) {
  switch (step.rules().objects) {
    case SessionRules::Objects::kAlone:
      return std::make_unique<const ObjectsAlone>(step);
    case SessionRules::Objects::kBatches:
      if (step.multiplex() != nullptr) return std::make_unique<const ObjectBuckets>(step);
      return std::make_unique<const ObjectBatches>(step);
  }
  fail_internal("no rules of objects");
}

}  // namespace sam_rlx
