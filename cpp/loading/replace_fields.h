#pragma once

#include <string>

#include "loading/family.h"

namespace sam_rlx {

// Sets fields of a config from JSON: {"base.sigmoid_bias_for_mem_enc": -8}, by their names in
// model.config; those only that no weight depends on. "family" is the family that it must be.
// UnsupportedError for another family or name, CheckpointError for a value of another type or out
// of its range.
void replace_fields(NetworkConfig& config, const Family& family, const std::string& text);

}  // namespace sam_rlx
