#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "predictors/image/image_transform.h"
#include "predictors/video/frame_cache.h"
#include "predictors/video/tracked_object.h"

namespace sam_rlx {

// The objects of a session. Copies are cheap: they share objects, tensors and frames.
struct SessionState {
  using Object = CopyOnWrite<TrackedObject>;

  std::vector<Object> objects = {};  // in the order of their first prompts
  std::int64_t open_batch = 0;       // of objects to come
  // What frames left behind for the slots of batches, see ObjectBuckets; these have outputs alone.
  std::vector<Object> buckets = {};
  std::optional<Size> orig_hw = {};
  bool with_detector = false;
  FrameCache frames = {};

  // Null: there is none.
  Object* find(std::int64_t handle) {
    for (Object& object : objects) {
      if (object->handle == handle) return &object;
    }
    return nullptr;
  }
  const TrackedObject* find(std::int64_t handle) const {
    for (const Object& object : objects) {
      if (object->handle == handle) return &*object;
    }
    return nullptr;
  }
};

}  // namespace sam_rlx
