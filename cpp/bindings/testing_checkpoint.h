#pragma once

#include <pybind11/pybind11.h>

namespace sam_rlx {

// Opens the checkpoint readers to the tests.
void register_checkpoint(pybind11::module_& module);

}  // namespace sam_rlx
