#pragma once

#include "checkpoint/state_dict.h"

// Files of sam3.cpp and its forks, .ggml and GGUF: names of their own, and settings in the metadata
// as sam3.hparams.<name>.

namespace sam_rlx {

// Raises UnsupportedError for models of theirs that are not of these families: EdgeTAM.
void refuse_sam3cpp_relatives(const StateDict& state_dict);

// Gives tensors Meta's names and axes, and puts the settings into the metadata as the config that
// sam2_config_of and sam3_config_of read.
void sam2_from_sam3cpp(StateDict& state_dict);
void sam3_from_sam3cpp(StateDict& state_dict);

}  // namespace sam_rlx
