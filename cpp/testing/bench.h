#pragma once

#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "testing/testing.h"

// What the benchmarks of ops and of kernels share.

namespace sam_rlx {

using Isa = std::optional<std::string>;

// (wall seconds, processor seconds of the calling thread) of each repetition. The second is what
// one thread needs when others compete for the cores.
using Times = std::vector<std::pair<double, double>>;

template <class F>
Times measure(int repetitions, F run) {
  using Clock = std::chrono::steady_clock;
  const auto thread_seconds = [] {
#if defined(CLOCK_THREAD_CPUTIME_ID)
    std::timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
#else
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
#endif
  };
  Times times;
  const pybind11::gil_scoped_release release;
  run();  // grows the workspace, touches the pages
  for (int i = 0; i < repetitions; ++i) {
    const double cpu = thread_seconds();
    const Clock::time_point wall = Clock::now();
    run();
    times.emplace_back(std::chrono::duration<double>(Clock::now() - wall).count(),
                       thread_seconds() - cpu);
  }
  return times;
}

inline Tensor random_tensor(const Shape& shape) {
  Tensor tensor(shape);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    state = state * 1664525U + 1013904223U;
    tensor.data()[i] = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0F;
  }
  return tensor;
}

}  // namespace sam_rlx
