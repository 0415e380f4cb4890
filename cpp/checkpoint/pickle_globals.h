#pragma once

#include <string_view>

namespace sam_rlx {

// The rule for the globals ("module.name") of a pickle. Nothing that a pickle names is imported or
// called, so a class that is not known here is harmless: its objects are values that nobody reads.
// A global of a module that runs code, programs or other pickles is refused all the same: no
// training program writes it, and a file that has it is an attack on those who read it otherwise.
// So is a path through attributes between double underscores ("f.__globals__").
bool could_run_code(std::string_view global);

// The getattr of Python 2 and 3: refused too, but for getattr(Class, "NAME"), a global by its path.
bool is_getattr(std::string_view global);

}  // namespace sam_rlx
