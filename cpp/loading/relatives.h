#pragma once

#include <string>
#include <string_view>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Models that look like those of the families and need other code, and parts of models. Raises
// UnsupportedError that names them and says what helps.
void refuse_relatives(const StateDict& state_dict);

// Raises the error for the content of a file that is no checkpoint, naming what it is if that can
// be told.
[[noreturn]] void refuse_content(std::string_view text, const std::string& where);

}  // namespace sam_rlx
