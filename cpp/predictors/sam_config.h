#pragma once

#include <optional>
#include <string>

#include "checkpoint/state_dict.h"
#include "models/sam/config.h"

namespace sam_rlx {

// The sizes of the SAM model that a checkpoint (Meta's key names) holds: from the config in its
// metadata, else from the tensors. Numbers of heads are not in the tensors, so without a config
// the file must be ViT-B, L or H. Raises CheckpointError when `variant` contradicts the file, and
// UnsupportedError for sizes that are none of the known ones.
sam::SamConfig sam_config_of(const StateDict& state_dict,
                             const std::optional<std::string>& variant);

}  // namespace sam_rlx
