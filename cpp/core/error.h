#pragma once

#include <stdexcept>
#include <string>

namespace sam_rlx {

// Base of every error that the library raises. The text has the form
// "where: expected X, found Y", lower case.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller's shape, dtype, range or combination is wrong.
class InvalidArgument : public Error {
  using Error::Error;
};
// The file is damaged, or its tensors are not those of the model.
class CheckpointError : public Error {
  using Error::Error;
};
// Well formed, but not supported here: variant, dtype, instruction set.
class UnsupportedError : public Error {
  using Error::Error;
};
// Wrong order of calls, or an object that is in use.
class StateError : public Error {
  using Error::Error;
};
// A broken promise of the library itself.
class InternalError : public Error {
  using Error::Error;
};

template <class E = InvalidArgument>
[[noreturn]] void fail(const std::string& where, const std::string& expected,
                       const std::string& found) {
  throw E(where + ": expected " + expected + ", found " + found);
}

[[noreturn]] inline void fail_internal(const std::string& what) {
  throw InternalError(what + "; this is a defect of sam_rlx, please report it");
}

[[noreturn]] inline void fail_dcheck(const char* condition, const char* file, int line) {
  fail_internal(std::string(file) + ":" + std::to_string(line) + ": expected " + condition);
}

}  // namespace sam_rlx

// Checks a promise that one part of the library makes to another, in debug and sanitizer builds
// (SAM_RLX_DCHECKS). In other builds the condition is compiled but never evaluated. A broken
// promise throws InternalError: the library never aborts, and a test sees which promise it was. In
// a destructor it ends the process. Kernels include no header of core and have no such checks.
#ifdef SAM_RLX_DCHECKS
#define SAM_RLX_DCHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::sam_rlx::fail_dcheck(#condition, __FILE__, __LINE__))
#else
#define SAM_RLX_DCHECK(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#endif
