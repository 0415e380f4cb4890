#include "bindings/gil.h"

#include <chrono>
#include <thread>
#include <utility>

namespace sam_rlx {
namespace {

PyObject* poll_hook = nullptr;  // the GIL guards it

}  // namespace

PyThreadState*& released_state() noexcept {
  thread_local PyThreadState* state = nullptr;
  return state;
}

void sleep_forever() noexcept {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void set_poll_hook(PyObject* hook) {
  Py_XINCREF(hook);
  Py_XDECREF(std::exchange(poll_hook, hook));
}

void poll_python_signals() {
  call_python([]() -> PyObject* {
    if (PyErr_CheckSignals() != 0) return nullptr;
    if (poll_hook != nullptr) return PyObject_CallNoArgs(poll_hook);
    Py_RETURN_NONE;
  });
}

}  // namespace sam_rlx
