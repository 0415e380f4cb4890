#include <pybind11/pybind11.h>

#include "bindings/errors.h"
#include "bindings/testing_checkpoint.h"
#include "bindings/testing_masks.h"

namespace py = pybind11;

PYBIND11_MODULE(_testing, m) {
  m.doc() = "Opens ops and layers to the tests. Never in a wheel.";
  sam_rlx::register_errors(m);
  sam_rlx::register_checkpoint(m);
  sam_rlx::register_masks(m);
}
