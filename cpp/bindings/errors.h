#pragma once

#include <pybind11/pybind11.h>

namespace sam_rlx {

// Makes the library's errors arrive as the classes of sam_rlx.errors.
void register_errors(pybind11::module_& module);

}  // namespace sam_rlx
