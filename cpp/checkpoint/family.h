#pragma once

#include <string>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

enum class Dialect { kMeta, kHuggingFace };

struct Family {
  std::string name;  // "sam", "sam2", "sam3"
  Dialect dialect = Dialect::kMeta;
};

// Recognises a model family by the names of its tensors. Relatives that need other code (HQ-SAM,
// MobileSAM, SAM 3.1) raise UnsupportedError, anything else CheckpointError.
Family detect_family(const StateDict& state_dict);

}  // namespace sam_rlx
