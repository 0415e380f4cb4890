#pragma once

#include <pybind11/pybind11.h>

#include "models/sam3/sam3.h"

namespace sam_rlx {

// Sizes under upstream's argument names; "tracker" is None where there is none.
pybind11::dict sam3_config(const sam3::Sam3Config& c);

}  // namespace sam_rlx
