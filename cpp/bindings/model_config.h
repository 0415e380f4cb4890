#pragma once

#include <pybind11/pybind11.h>

#include "bindings/sam3_config.h"
#include "models/sam/sam.h"
#include "models/sam2/sam2.h"

namespace sam_rlx {

namespace py = pybind11;

// Sizes of a network under upstream's argument names.
py::dict sam_config(const sam::SamConfig& config);
py::dict sam2_config(const sam2::Sam2Config& config);

}  // namespace sam_rlx
