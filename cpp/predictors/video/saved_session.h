#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/named_tensors.h"
#include "predictors/video/object_step.h"
#include "predictors/video/session_state.h"

namespace sam_rlx {

// What a session is on disk: all that it knows of prompts and outputs, without frames and texts.
struct SavedSession {
  std::vector<SessionState::Object> objects = {};
  std::vector<SessionState::Object> buckets = {};  // SAM 3.1
  std::optional<Size> orig_hw = {};
  std::optional<std::int64_t> num_pushed = {};  // none: the frames come from a video
};

// `step` tells the shapes of outputs. Memory of new prompts is encoded before.
NamedTensors to_tensors(const SavedSession& session, const ObjectStep& step);
// Raises CheckpointError for what `to_tensors` does not give.
SavedSession from_tensors(const NamedTensors& saved, const ObjectStep& step);

}  // namespace sam_rlx
