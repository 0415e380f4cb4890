#pragma once

#include <optional>
#include <string>

#include "checkpoint/json.h"
#include "checkpoint/state_dict.h"
#include "models/sam/config.h"

namespace sam_rlx {

// The sizes of the SAM model that a checkpoint (Meta's key names) holds: from the config in its
// metadata, else from the tensors. The variant is one that was released, the metadata's, or custom.
// Raises CheckpointError when `variant` contradicts the file or sizes contradict each other, and
// UnsupportedError for a variant that there is not.
sam::SamConfig sam_config_of(const StateDict& state_dict,
                             const std::optional<std::string>& variant);

// The settings that transformers' SamModel, or SamHQModel, asks for.
Json sam_folder_config(sam::SamConfig config);

}  // namespace sam_rlx
