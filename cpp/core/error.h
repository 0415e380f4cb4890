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

}  // namespace sam_rlx

// Debug checks of kernels and views: nothing in a release build.
#ifdef NDEBUG
#define SAM_RLX_DCHECK(condition) ((void)0)
#else
#include <cassert>
#define SAM_RLX_DCHECK(condition) assert(condition)
#endif
