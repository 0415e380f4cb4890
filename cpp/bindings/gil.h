#pragma once

#include <pybind11/pybind11.h>

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

// In its scope other Python threads run.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    unless_python_ends([&] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// Calls Python from a thread without the GIL: call() returns a new reference, or null for an
// exception, which is raised. It is C alone: see `unless_python_ends`.
template <class Call>
void call_python(const Call& call) {
  const auto state = unless_python_ends([] { return PyGILState_Ensure(); });
  struct Release {
    PyGILState_STATE state;
    ~Release() { PyGILState_Release(state); }
  } const release{state};
  PyObject* const result = unless_python_ends(call);
  if (result == nullptr) throw pybind11::error_already_set();
  Py_DECREF(result);
}

// For long work of the core, now and then: raises KeyboardInterrupt, or what another signal handler
// or the hook of `set_poll_hook` raised. Takes the GIL by itself.
void poll_python_signals();

// Python code to run at each poll; null: none. Tests stop calls with it.
void set_poll_hook(PyObject* hook);

}  // namespace sam_rlx
