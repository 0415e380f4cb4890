#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/errors.h"
#include "bindings/gil.h"
#include "bindings/register.h"
#include "core/cores.h"
#include "core/parallel.h"

namespace py = pybind11;

// Free-threaded Python keeps its lock off: what a call may change is behind a BusyFlag, a mutex or
// an atomic, and the rest never changes.
PYBIND11_MODULE(core_module, m, py::mod_gil_not_used()) {
  m.doc() = "The compiled core of sam_rlx. Use the classes of sam_rlx instead.";
  sam_rlx::install_fork_handler();
  sam_rlx::register_errors(m);
  sam_rlx::register_exclusive(m);
  sam_rlx::register_checkpoint(m);
  sam_rlx::register_model(m);
  sam_rlx::register_named_tensors(m);
  sam_rlx::register_options(m);
  sam_rlx::register_image_predictor(m);
  sam_rlx::register_mask_generator(m);
  sam_rlx::register_masks_api(m);
  sam_rlx::register_tiles(m);
  sam_rlx::register_overlay(m);
  sam_rlx::register_resize(m);
  sam_rlx::register_prompt_checks(m);
  sam_rlx::register_stepped_objects(m);
  sam_rlx::register_video_session(m);
  sam_rlx::register_concept_network(m);
  sam_rlx::register_point_masks(m);
  sam_rlx::register_concept_predictor(m);
  sam_rlx::register_tensor_predictor(m);
  sam_rlx::register_sam_embeddings(m);
  sam_rlx::register_tokenizer(m);
  m.def(
      "set_poll_hook",
      [](const py::object& hook) { sam_rlx::set_poll_hook(hook.is_none() ? nullptr : hook.ptr()); },
      py::arg("hook"));
  m.def("keep_affinity", sam_rlx::keep_affinity);
  m.def("allowed_cpus", sam_rlx::allowed_cpus);
}

// The entry of the extension. pybind11's own begins by taking the GIL for the main interpreter, and
// would wait for ever in another one.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "sam_rlx: expected the main interpreter, found a sub-interpreter");
    return nullptr;
  }
  return PyInit_core_module();
}
