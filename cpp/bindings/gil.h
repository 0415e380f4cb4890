#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

namespace sam_rlx {

// Never returns.
[[noreturn]] void sleep_forever() noexcept;

// Returns call(), which waits for the GIL. When the interpreter ends meanwhile, the thread sleeps
// until the process is gone. Up to 3.13 Python ends such a thread with pthread_exit: glibc unwinds
// its stack, and at the first noexcept function, such as a destructor, the process aborts. From
// 3.14 on Python lets the thread sleep by itself.
template <class Call>
auto unless_python_ends(const Call& call) {
#if defined(__GLIBCXX__)
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    sleep_forever();
  }
#else
  return call();
#endif
}

// The state of this thread while it runs without the GIL; null while it has it.
PyThreadState*& released_state() noexcept;

// In its scope other Python threads run.
class GilRelease {
 public:
  GilRelease() { released_state() = PyEval_SaveThread(); }
  ~GilRelease() {
    PyThreadState* const state = std::exchange(released_state(), nullptr);
    unless_python_ends([&] { PyEval_RestoreThread(state); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;
};

// In its scope a thread in a scope of GilRelease has the GIL again; one that has it keeps it.
// PyGILState_Ensure would not do: once the interpreter is gone, it crashes.
class GilTaken {
 public:
  GilTaken() : state_(std::exchange(released_state(), nullptr)) {
    if (state_ != nullptr) unless_python_ends([&] { PyEval_RestoreThread(state_); });
  }
  ~GilTaken() {
    if (state_ != nullptr) released_state() = PyEval_SaveThread();
  }
  GilTaken(const GilTaken&) = delete;
  GilTaken& operator=(const GilTaken&) = delete;

 private:
  PyThreadState* state_;
};

// Calls Python, with the GIL: call() returns a new reference, or null for an exception, which is
// raised. It is C alone: see `unless_python_ends`.
template <class Call>
PyObject* called(const Call& call) {
  PyObject* const result = unless_python_ends(call);
  if (result == nullptr) throw pybind11::error_already_set();
  return result;
}

// The same from any scope; what it gives is dropped.
template <class Call>
void call_python(const Call& call) {
  const GilTaken taken;
  Py_DECREF(called(call));
}

// For long work of the core, now and then: raises KeyboardInterrupt, or what another signal handler
// or the hook of `set_poll_hook` raised. Takes the GIL by itself.
void poll_python_signals();

// Python code to run at each poll; null: none. Tests stop calls with it.
void set_poll_hook(PyObject* hook);

}  // namespace sam_rlx
