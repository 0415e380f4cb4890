#pragma once

#include <string>

#include "checkpoint/state_dict.h"
#include "models/trunks/config.h"

// Sizes of trunks that several families have, all but the side of the input, as their tensors tell
// them. `prefix`: of the names. Raise CheckpointError where tensors are missing or sizes do not
// divide each other.

namespace sam_rlx {

trunks::TinyViTConfig tiny_vit_of(const StateDict& state_dict, const std::string& prefix);
// By the names of RepViT's repository: RepVitConfig::listed.
trunks::RepVitConfig listed_rep_vit_of(const StateDict& state_dict, const std::string& prefix);

}  // namespace sam_rlx
