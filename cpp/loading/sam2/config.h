#pragma once

#include <optional>
#include <string>

#include "checkpoint/state_dict.h"
#include "loading/hugging_face_config.h"
#include "models/sam2/config.h"

namespace sam_rlx {

// The sizes of the SAM 2 or 2.1 model that a checkpoint (Meta's key names) holds: from the config
// in its metadata, else from the tensors. Tensors do not tell heads, windows, global blocks and the
// input side: without metadata these are those of the release that the other sizes fit. The variant
// is hiera_t, hiera_s, hiera_b+, hiera_l, the metadata's, or custom. Raises CheckpointError when
// `variant` contradicts the file, sizes contradict each other or no release fits, and
// UnsupportedError for a variant that there is not.
sam2::Sam2Config sam2_config_of(const StateDict& state_dict,
                                const std::optional<std::string>& variant);

// The settings that transformers' Sam2VideoModel asks for, or Sam2Model where there is no memory.
HuggingFaceConfig sam2_folder_config(const sam2::Sam2Config& config);

}  // namespace sam_rlx
