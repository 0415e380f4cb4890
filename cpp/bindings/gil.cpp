#include "bindings/gil.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

namespace sam_rlx {
namespace {

std::mutex poll_hook_mutex;  // free-threaded Python has no lock that would guard it
PyObject* poll_hook = nullptr;

PyObject* new_reference_to_poll_hook() {
  const std::lock_guard lock(poll_hook_mutex);
  return Py_XNewRef(poll_hook);
}

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
  {
    const std::lock_guard lock(poll_hook_mutex);
    std::swap(poll_hook, hook);
  }
  Py_XDECREF(hook);
}

void poll_python_signals() {
  call_python([]() -> PyObject* {
    if (PyErr_CheckSignals() != 0) return nullptr;
    PyObject* const hook = new_reference_to_poll_hook();
    if (hook == nullptr) Py_RETURN_NONE;
    PyObject* const result = PyObject_CallNoArgs(hook);
    Py_DECREF(hook);
    return result;
  });
}

}  // namespace sam_rlx
