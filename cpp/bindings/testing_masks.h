#pragma once

#include <pybind11/pybind11.h>

namespace sam_rlx {

// Resizes, the picture transform and the parts of everything mode, for tests.
void register_masks(pybind11::module_& module);

}  // namespace sam_rlx
