#pragma once

#include <optional>
#include <string>

#include "checkpoint/state_dict.h"
#include "loading/hugging_face_config.h"
#include "models/sam3/sam3.h"

namespace sam_rlx {

// The sizes of the SAM 3 model that a checkpoint (Meta's key names) holds: from the config in its
// metadata, else those of the release, if the tensors fit it. Sizes of the tracker are in its
// tensors; a file without any holds the detector alone. The variant is sam3, the metadata's, or
// custom. Raises CheckpointError when `variant` contradicts the file, sizes contradict each other
// or are not those of the release, and UnsupportedError for a variant that there is not.
sam3::Sam3Config sam3_config_of(const StateDict& state_dict,
                                const std::optional<std::string>& variant);

// The settings that transformers' class with the parts of these tensors asks for: Sam3Model,
// Sam3VideoModel, Sam3TrackerModel or Sam3TrackerVideoModel. UnsupportedError where there is none.
HuggingFaceConfig sam3_folder_config(const StateDict& state_dict, const sam3::Sam3Config& config);

}  // namespace sam_rlx
