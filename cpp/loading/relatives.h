#pragma once

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Models that look like those of the families and need other code, and parts of models. Raises
// UnsupportedError that names them and says what helps.
void refuse_relatives(const StateDict& state_dict);

}  // namespace sam_rlx
