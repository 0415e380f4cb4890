#include "predictors/video/stepped_objects.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "ops/elementwise.h"
#include "ops/resize.h"
#include "predictors/image/image_predictor.h"

namespace sam_rlx {
namespace {

constexpr float kThere = 10.0F;  // score of an object whose mask shows something

VideoOptions stepped_options(bool bfloat16_memory) {
  return {.fill_hole_area = 0, .bfloat16_memory = bfloat16_memory, .history = -1};
}

}  // namespace

SteppedObjects::SteppedObjects(std::shared_ptr<const Model> model, int num_threads,
                               bool bfloat16_memory)
    : step_(std::move(model), stepped_options(bfloat16_memory), std::nullopt),
      num_threads_(checked_num_threads(num_threads)) {}

Context SteppedObjects::context() {
  return {.kernels = step_.model().kernels(),
          .workspace = workspace_,
          .num_threads = num_threads_,
          .poll_interrupt = poll_interrupt_};
}

void SteppedObjects::set_frame(std::int64_t index, ConstView pixels) {
  const Shape expected{3, step_.side(), step_.side()};
  if (pixels.shape != expected) fail("frame", expected.str(), pixels.shape.str());
  if (index < 0 || index >= sam2::kMaxFrames) {
    fail("frame_idx", "0 to " + std::to_string(sam2::kMaxFrames - 1), std::to_string(index));
  }
  Context ctx = context();
  EncodedFramePtr frame = pool_.take();
  const Workspace::Scope scratch(ctx.workspace);
  const View input = ctx.workspace.floats({step_.side(), step_.side(), 3});
  const std::int64_t positions = step_.side() * step_.side();
  transpose(ctx, pixels.reshape({3, positions}), input.reshape({positions, 3}));
  step_.encode_input(ctx, input, with_detector_, *frame);
  frame->index = index;
  frames_.adopt(std::move(frame));
}

std::unique_ptr<SteppedObjects> SteppedObjects::clone() const {
  auto other = std::make_unique<SteppedObjects>(step_.shared_model(), num_threads_,
                                                step_.options().bfloat16_memory);
  other->objects_ = objects_;
  other->with_detector_ = with_detector_;
  other->poll_interrupt_ = poll_interrupt_;
  return other;
}

// ---------------------------------------------------------------- a call

bool SteppedObjects::needs_frame(std::int64_t frame, std::span<const Input> inputs) const {
  for (std::size_t i = 0; i < objects_.size() && i < inputs.size(); ++i) {
    if (!is_known(i, frame, inputs[i])) return true;
  }
  return false;
}

// No object sees what the call makes of another one. Where one object's prompt is new on the frame,
// those after it are tracked forward: upstream changes the direction for them too.
std::vector<FrameOutputPtr> SteppedObjects::run(const Call& call) {
  if (call.inputs.size() != objects_.size()) {
    fail("inputs", "one for each of " + std::to_string(objects_.size()) + " objects",
         std::to_string(call.inputs.size()));
  }
  EncodedFrame* const frame = frames_.find(call.frame);
  if (frame == nullptr && needs_frame(call.frame, call.inputs)) {
    fail<StateError>("run", "frame " + std::to_string(call.frame) + " given before", "none");
  }
  Context ctx = context();
  std::vector<Fresh> all;
  bool reverse = call.reverse;
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const TrackedObject& object = objects_[i];
    const Input& input = call.inputs[i];
    if (is_known(i, call.frame, input)) continue;
    const bool is_cond = input.is_new && !object.frames_tracked.contains(call.frame);
    if (is_cond) reverse = false;
    ctx.check_interrupt();
    all.push_back({.number = i, .is_cond = is_cond, .reverse = reverse, .input = &input});
    all.back().output = run_object(ctx, call, *frame, all.back());
  }
  if (call.remember && !all.empty()) encode_memories(ctx, *frame, all);
  ctx.check_interrupt();
  keep(call, all);
  std::vector<FrameOutputPtr> outputs(objects_.size());
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const auto made =
        std::find_if(all.begin(), all.end(), [&](const Fresh& fresh) { return fresh.number == i; });
    const bool is_cond = made == all.end() || made->is_cond;
    const TrackedObject& object = objects_[i];
    outputs[i] =
        (is_cond ? object.cond_frame_outputs : object.non_cond_frame_outputs).share(call.frame);
  }
  return outputs;
}

FrameOutput SteppedObjects::run_object(Context& ctx, const Call& call, EncodedFrame& frame,
                                       const Fresh& fresh) const {
  const Workspace::Scope scratch(ctx.workspace);
  const Input& input = *fresh.input;
  if (input.is_new && input.mask.data != nullptr) {
    return step_.run_mask(ctx, frame, input.mask, true);
  }
  const ObjectStep::Target target{.frame = frame,
                                  .object = objects_[fresh.number],
                                  .is_init_cond_frame = fresh.is_cond,
                                  .reverse = fresh.reverse,
                                  .frames_now = call.num_frames.value_or(sam2::kMaxFrames)};
  if (!fresh.is_cond) check_memories(target);
  const bool has_points = input.is_new && input.points.has_value();
  return step_.run_points(ctx, target, has_points ? &*input.points : nullptr, nullptr);
}

void SteppedObjects::check_memories(const ObjectStep::Target& target) const {
  const TrackedObject& object = target.object;
  if (object.cond_frame_outputs.empty()) {
    fail<StateError>("object " + std::to_string(&object - objects_.data()),
                     "a prompt that was run: frames are tracked from there", "none");
  }
  for (const sam2::MemoryChoice::Map& map : step_.choose_memory(target).maps) {
    const FrameOutputs& outputs =
        map.conditioning ? object.cond_frame_outputs : object.non_cond_frame_outputs;
    if (outputs.find(map.frame)->has_memory()) continue;
    fail<StateError>("frame " + std::to_string(map.frame), "an encoded memory",
                     "none: it was run without the memory encoder");
  }
}

// If one object was prompted, memories of all are made of what is inside their masks; with a
// spatial perceiver objects are alone.
void SteppedObjects::encode_memories(Context& ctx, const EncodedFrame& frame,
                                     std::span<Fresh> all) const {
  const bool alone = step_.heads().spatial_perceiver.has_value();
  const bool any_prompted =
      std::any_of(all.begin(), all.end(), [](const Fresh& fresh) { return fresh.is_prompted(); });
  for (Fresh& fresh : all) {
    const Workspace::Scope scratch(ctx.workspace);
    ctx.check_interrupt();
    ConstView mask = fresh.output.low_res_mask;
    if (fresh.input->is_new && fresh.input->mask.data != nullptr) {
      const ConstView given = fresh.input->mask;
      const View logits = ctx.workspace.floats(given.shape);
      std::transform(given.data, given.data + given.numel(), logits.data,
                     [](float value) { return value * sam2::kMaskScale + sam2::kMaskBias; });
      mask = logits;
    }
    fresh.output.maskmem_features =
        step_.encode_memory(ctx, frame,
                            {.mask = mask,
                             .object_score_logits = fresh.output.object_score_logits,
                             .from_prompt = alone ? fresh.is_prompted() : any_prompted,
                             .resizes_logits = true});
  }
}

// ---------------------------------------------------------------- changes

void SteppedObjects::remove_object(std::size_t number) {
  objects_.erase(objects_.begin() + static_cast<std::ptrdiff_t>(number));
}

void SteppedObjects::condition(std::size_t number, std::int64_t frame) {
  TrackedObject& object = objects_.at(number);
  if (FrameOutputPtr output = object.non_cond_frame_outputs.take(frame)) {
    object.cond_frame_outputs.set(frame, std::move(output));
  }
}

void SteppedObjects::remember(std::int64_t frame, ConstView masks) {
  EncodedFrame* const encoded = frames_.find(frame);
  if (encoded == nullptr) fail<StateError>("remember", "a frame that was given before", "none");
  Context ctx = context();
  const std::int64_t size = 4 * masks.shape[1];
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const Workspace::Scope scratch(ctx.workspace);
    ctx.check_interrupt();
    const ConstView mask = masks[static_cast<std::int64_t>(i)];
    const View large = ctx.workspace.floats({1, size, size});
    resize_bilinear(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), large);
    const bool is_there =
        std::any_of(mask.data, mask.data + mask.numel(), [](float logit) { return logit > 0.0F; });
    const SharedTensor memory =
        step_.encode_memory(ctx, *encoded,
                            {.mask = large[0],
                             .object_score_logits = is_there ? kThere : -kThere,
                             .resizes_logits = true});
    const auto change = [&](FrameOutput& output) { output.maskmem_features = memory; };
    objects_[i].cond_frame_outputs.change(frame, change);
    objects_[i].non_cond_frame_outputs.change(frame, change);
  }
}

void SteppedObjects::keep(const Call& call, std::span<Fresh> all) {
  for (Fresh& fresh : all) {
    TrackedObject& object = objects_[fresh.number];
    (fresh.is_cond ? object.cond_frame_outputs : object.non_cond_frame_outputs)
        .set(call.frame, std::move(fresh.output));
    if (!fresh.is_cond) object.frames_tracked.set(call.frame, fresh.reverse);
  }
}

}  // namespace sam_rlx
