// Checks that count failures: parts of core_check.cpp.

#pragma once

#include <cstdio>
#include <exception>
#include <string>

#include "core/error.h"

namespace core_check {

inline int failures = 0;

inline void expect(bool condition, const char* text, const char* file, int line) {
  if (condition) return;
  ++failures;
  std::printf("%s:%d: expected %s\n", file, line, text);
}

// The text of the E that `body` throws. Another exception, or none, is a failure.
template <class E, class Body>
std::string thrown(const Body& body, const char* file, int line) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    expect(false, (std::string("another exception than ") + error.what()).c_str(), file, line);
    return "";
  }
  expect(false, "an exception", file, line);
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void check_shape();
void check_tensor();
void check_workspace();
void check_parallel();

}  // namespace core_check

#define EXPECT(condition) ::core_check::expect((condition), #condition, __FILE__, __LINE__)
#define THROWN(Error, ...) ::core_check::thrown<Error>([&] { __VA_ARGS__; }, __FILE__, __LINE__)
