#include "predictors/video/object_buckets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "core/error.h"

namespace sam_rlx {
namespace {

using SlotMask = sam3::MultiplexTracker::SlotMask;

// The bucket of a slot. Null: there is none.
SessionState::Object* find_bucket(SessionState& state, std::int64_t batch, std::int64_t slot,
                                  std::int64_t slots) {
  for (SessionState::Object& bucket : state.buckets) {
    if (bucket->batch == batch && bucket->slot == slot / slots * slots) return &bucket;
  }
  return nullptr;
}

// Whether an object has come on a frame, and tracking has not seen it yet.
bool has_just_come(const TrackedObject& object, std::int64_t frame) {
  return object.temp_cond.find(frame) != nullptr && object.cond_frame_outputs.empty() &&
         object.non_cond_frame_outputs.empty();
}

}  // namespace

ObjectBuckets::ObjectBuckets(const ObjectStep& step) : ObjectBatches(step) {
  if (step.options().use_memory_selection) {
    fail<UnsupportedError>("use_memory_selection", "false with SAM 3.1", "true");
  }
}

// ---------------------------------------------------------------- slots

// Of several batches with room the one with the least is taken.
std::int64_t ObjectBuckets::batch_for(SessionState& state, const TrackedObject& object,
                                      const Arrival& arrival) const {
  for (const Object& other : state.objects) {
    if (other->has_slot() && other->owner == object.owner &&
        other->is_masklet == (object.owner != TrackedObject::kPrompts) &&
        has_just_come(*other, *arrival.frame)) {
      return other->batch;
    }
  }
  std::int64_t best = -1, least = std::numeric_limits<std::int64_t>::max();
  if (object.owner != TrackedObject::kPrompts) {
    std::map<std::int64_t, std::int64_t> room;
    for (const Object& bucket : state.buckets) {
      if (bucket->owner != object.owner) continue;
      room[bucket->batch] += bucket->slot + slots() - bucket->end_slot;
    }
    for (const auto& [batch, free] : room) {
      if (free < arrival.together || free >= least) continue;
      best = batch;
      least = free;
    }
  }
  return best >= 0 ? best : state.open_batch++;
}

void ObjectBuckets::join(SessionState& state, TrackedObject& object, const Arrival& arrival) const {
  if (!arrival.frame) return;
  object.batch = batch_for(state, object, arrival);
  Object* bucket = nullptr;
  std::int64_t first = 0;
  for (Object& one : state.buckets) {
    if (one->batch != object.batch) continue;
    if (bucket == nullptr && one->end_slot < one->slot + slots()) bucket = &one;
    first = std::max(first, one->slot + slots());
  }
  if (bucket == nullptr) {
    bucket = &state.buckets.emplace_back(TrackedObject{
        .batch = object.batch, .slot = first, .end_slot = first, .owner = object.owner});
  }
  object.slot = bucket->write().end_slot++;
}

std::vector<ObjectBuckets::Bucket> ObjectBuckets::buckets_of(SessionState& state,
                                                             std::span<Object* const> objects,
                                                             std::int64_t slots) {
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const TrackedObject& object = **objects[i];
    if (!object.has_slot()) continue;  // it waits for a prompt
    Object* const found = find_bucket(state, object.batch, object.slot, slots);
    auto bucket = std::find_if(buckets.begin(), buckets.end(),
                               [&](const Bucket& one) { return one.bucket == found; });
    if (bucket == buckets.end()) bucket = buckets.insert(bucket, Bucket{.bucket = found});
    bucket->members.push_back(i);
  }
  return buckets;
}

void ObjectBuckets::remove(SessionState& state, std::int64_t handle) const {
  ObjectBatches::remove(state, handle);
  std::erase_if(state.buckets, [&](const Object& bucket) {
    return std::none_of(state.objects.begin(), state.objects.end(), [&](const Object& object) {
      return object->batch == bucket->batch && object->slot >= bucket->slot &&
             object->slot < bucket->slot + slots();
    });
  });
}

// ---------------------------------------------------------------- before tracking

void ObjectBuckets::condition(Context& ctx, SessionState& state, const EncodedFrame& frame,
                              std::span<Conditioned> objects) const {
  std::vector<Object*> members;
  for (const Conditioned& one : objects) members.push_back(one.object);
  for (const Bucket& bucket : buckets_of(state, members, slots())) {
    ctx.check_interrupt();
    std::vector<SlotMask> masks;
    std::vector<SharedTensor> obj_ptrs;
    for (const std::size_t i : bucket.members) {
      const TrackedObject& object = **members[i];
      masks.push_back({.slot = object.slot % slots(),
                       .mask = objects[i].mask,
                       .object_score_logits = objects[i].output.object_score_logits,
                       .is_conditioning = object.is_prompted(frame.index)});
      obj_ptrs.push_back(objects[i].output.obj_ptr);
    }
    bucket.bucket->write().temp_cond.set(frame.index,
                                         step().encode_bucket(ctx, frame, masks, obj_ptrs));
  }
  for (Conditioned& one : objects) {
    one.output.is_in_bucket = true;
    one.object->write().temp_cond.set(frame.index, std::move(one.output));
  }
}

// Masks of a text, which all come at once, are cut when all are there.
void ObjectBuckets::mask_given(SessionState& state, Object& object, std::int64_t frame) const {
  if (object->owner == TrackedObject::kPrompts) ObjectBatches::mask_given(state, object, frame);
}

// What two of them have in common belongs to none. Upstream: add_new_masks.
void ObjectBuckets::separate_masks(std::span<Conditioned> objects) const {
  using Bits = std::vector<std::uint8_t>;
  Bits once, twice;
  std::vector<FrameOutput*> given;
  for (Conditioned& one : objects) {
    if ((*one.object)->owner == TrackedObject::kPrompts || !one.output.video_mask) continue;
    const Bits& mask = *one.output.video_mask;
    once.resize(mask.size());
    twice.resize(mask.size());
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] != 0) (once[i] != 0 ? twice[i] : once[i]) = 1;
    }
    given.push_back(&one.output);
  }
  for (FrameOutput* const output : given) {
    Bits rest = *output->video_mask;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (twice[i] != 0) rest[i] = 0;
    }
    output->video_mask = std::make_shared<const Bits>(std::move(rest));
  }
}

// Masks of a text on a frame that a bucket was tracked on change its memory, and the frame
// conditions no others: it is one of the last frames. Upstream: add_new_masks, without
// add_all_frames_to_correct_as_cond.
void ObjectBuckets::before_tracking(SessionState& state) const {
  ObjectBatches::before_tracking(state);
  for (Object& object : state.buckets) {
    if (object->temp_cond.empty()) continue;
    TrackedObject& bucket = object.write();
    const auto is_clicked = [&](std::int64_t frame) {
      return std::any_of(state.objects.begin(), state.objects.end(), [&](const Object& one) {
        return one->batch == bucket.batch && one->points.contains(frame);
      });
    };
    for (const auto& [frame, value] : bucket.temp_cond) {
      const bool was_tracked = bucket.owner != TrackedObject::kPrompts &&
                               bucket.non_cond_frame_outputs.find(frame) != nullptr;
      if (was_tracked && !is_clicked(frame)) {
        bucket.non_cond_frame_outputs.set(frame, value.output);
        continue;
      }
      bucket.cond_frame_outputs.set(frame, value.output);
      bucket.non_cond_frame_outputs.erase(frame);
    }
    bucket.temp_cond.clear();
  }
}

// Upstream does not forget masks around a frame with prompts.
void ObjectBuckets::prompt_passed(SessionState& /*state*/, Object& /*object*/,
                                  std::int64_t /*frame*/) const {}

// ---------------------------------------------------------------- tracking

std::vector<FrameOutputPtr> ObjectBuckets::track(Context& ctx, SessionState& state,
                                                 const TrackStep& step_of_all,
                                                 const FrameAt& frame) const {
  std::vector<Object*> objects;
  for (const std::int64_t handle : step_of_all.handles) objects.push_back(state.find(handle));
  std::vector<FrameOutputPtr> outputs(objects.size());
  for (const Bucket& bucket : buckets_of(state, objects, slots())) {
    if ((*bucket.bucket)->cond_frame_outputs.find(step_of_all.frame) != nullptr) continue;
    ctx.check_interrupt();
    std::vector<std::int64_t> taken;
    for (const std::size_t i : bucket.members) taken.push_back((*objects[i])->slot % slots());
    ObjectStep::BucketStep found = step().run_bucket(ctx,
                                                     {.frame = frame(),
                                                      .bucket = **bucket.bucket,
                                                      .slots = taken,
                                                      .reverse = step_of_all.reverse},
                                                     step_of_all.run_mem_encoder);
    for (std::size_t k = 0; k < taken.size(); ++k) {
      outputs[bucket.members[k]] = std::make_shared<const FrameOutput>(std::move(found.objects[k]));
    }
    bucket.bucket->write().non_cond_frame_outputs.set(step_of_all.frame, std::move(found.bucket));
  }
  return outputs;
}

void ObjectBuckets::remember(Context& ctx, SessionState& state, const EncodedFrame& frame,
                             std::span<const std::int64_t> handles, ConstView masks) const {
  std::vector<Object*> objects;
  for (const std::int64_t handle : handles) objects.push_back(state.find(handle));
  for (const Bucket& bucket : buckets_of(state, objects, slots())) {
    std::vector<SlotMask> seen;
    for (const std::size_t i : bucket.members) {
      const TrackedObject& object = **objects[i];
      const ConstView mask = masks[static_cast<std::int64_t>(i)];
      seen.push_back({.slot = object.slot % slots(),
                      .mask = mask,
                      .object_score_logits = logit_of_area(mask),
                      .is_conditioning = object.is_prompted(frame.index)});
    }
    const SharedTensor memory = step().encode_bucket_memory(ctx, frame, seen);
    TrackedObject& target = bucket.bucket->write();
    for (FrameOutputs* outputs : {&target.cond_frame_outputs, &target.non_cond_frame_outputs}) {
      outputs->change(frame.index, [&](FrameOutput& output) { output.maskmem_features = memory; });
    }
  }
}

}  // namespace sam_rlx
