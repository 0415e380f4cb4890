// Workspace: who may use which bytes until when, and how it grows.

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/wait.h>
#include <unistd.h>
#define CORE_CHECK_FORK
#endif

#include "core/workspace.h"
#include "core_check.h"

namespace {

using sam_rlx::InternalError;
using sam_rlx::InvalidArgument;
using sam_rlx::Shape;
using sam_rlx::View;
using sam_rlx::Workspace;
using Scope = Workspace::Scope;

void fill(View view, float value) {
  for (std::int64_t i = 0; i < view.numel(); ++i) view.data[i] = value;
}

bool is_filled(View view, float value) {
  for (std::int64_t i = 0; i < view.numel(); ++i) {
    if (view.data[i] != value) return false;
  }
  return true;
}

void check_scopes() {
  Workspace workspace;
  const Scope outer(workspace);
  const View result = workspace.floats({100});
  const float* first = nullptr;
  for (int round = 0; round < 3; ++round) {
    const Scope inner(workspace);
    const View a = workspace.floats({3, 5}), b = workspace.floats({1});
    EXPECT(a.shape == (Shape{3, 5}));
    EXPECT(reinterpret_cast<std::uintptr_t>(b.data) % 64 == 0);
    EXPECT(result.data + 100 <= a.data && a.data + 15 <= b.data);
    if (round == 0) first = a.data;
    EXPECT(a.data == first);  // what the scope before took was given back
    fill(a, 1.0F);
    fill(b, 2.0F);
    fill(result, 3.0F);
    EXPECT(is_filled(a, 1.0F) && is_filled(b, 2.0F));
  }
  EXPECT(is_filled(result, 3.0F));
  EXPECT(workspace.floats({2}).data == first);
  EXPECT(workspace.floats({0}).numel() == 0);
}

// What a model does: results first, scratch of many sizes, several levels. Larger with `scale`.
void forward(Workspace& workspace, std::int64_t scale) {
  const Scope outer(workspace);
  std::vector<View> results;
  for (std::int64_t i = 1; i < 6; ++i) {
    results.push_back(workspace.floats({i, scale}));
    fill(results.back(), static_cast<float>(i));
    const Scope inner(workspace);
    fill(workspace.floats({scale * i * 3}), -1.0F);
    fill(workspace.floats({7}), -2.0F);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT(is_filled(results[i], static_cast<float>(i + 1)));
  }
}

std::int64_t allocations(Workspace& workspace, std::int64_t scale) {
  const std::int64_t before = sam_rlx::allocation_count();
  forward(workspace, scale);
  return sam_rlx::allocation_count() - before;
}

void check_growth() {
  Workspace workspace;
  EXPECT(workspace.capacity_bytes() == 0);
  EXPECT(allocations(workspace, 20'000) > 1);   // it grows,
  EXPECT(allocations(workspace, 20'000) == 1);  // becomes one block,
  const std::int64_t capacity = workspace.capacity_bytes();
  // which holds the largest sum: results 1 to 5 and the scratch of the last, in floats.
  EXPECT(capacity >= 30 * 20'000 * 4 && capacity < 31 * 20'000 * 4);
  for (const std::int64_t scale : {20'000, 1, 19'999}) EXPECT(allocations(workspace, scale) == 0);
  EXPECT(workspace.capacity_bytes() == capacity);
  EXPECT(allocations(workspace, 50'000) > 0);
  EXPECT(allocations(workspace, 50'000) == 1);
  EXPECT(allocations(workspace, 50'000) == 0);
}

// A result that is taken before any scope opens outlives the scopes after it.
void check_results_outside_of_scopes() {
  Workspace workspace;
  std::vector<View> results;
  for (int i = 0; i < 4; ++i) {
    results.push_back(workspace.floats({30'000}));
    fill(results.back(), static_cast<float>(i));
    const Scope scope(workspace);
    fill(workspace.floats({50'000}), -1.0F);
  }
  for (int i = 0; i < 4; ++i) {
    EXPECT(is_filled(results[static_cast<std::size_t>(i)], static_cast<float>(i)));
  }
}

// Freed memory carries no mark of its closed scopes: AddressSanitizer would refuse the next owner.
void check_freed_memory() {
  for (int round = 0; round < 3; ++round) {
    {
      Workspace workspace;
      const Scope scope(workspace);
      const Scope inner(workspace);
      workspace.floats({1 << 20});
    }
    EXPECT(sam_rlx::Tensor::zeros({1 << 20}).data()[12'345] == 0.0F);
  }
}

void check_exceptions() {
  Workspace workspace;
  const Scope outer(workspace);
  const View kept = workspace.floats({10});
  fill(kept, 4.0F);
  const float* const next = [&] {
    const Scope scope(workspace);
    return workspace.floats({1}).data;
  }();
  const auto failing = [&] {
    const Scope first(workspace);
    workspace.floats({100'000});
    const Scope second(workspace);
    workspace.floats({300'000});
    throw std::runtime_error("stopped");
  };
  EXPECT(THROWN(std::runtime_error, failing()) == "stopped");
  EXPECT(is_filled(kept, 4.0F));
  EXPECT(workspace.floats({1}).data == next);  // both scopes were closed
}

void check_sizes() {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  Workspace workspace;
  const Scope outer(workspace);
  for (int round = 0; round < 2; ++round) {  // with and without a block
    THROWN(InvalidArgument, workspace.floats({-1}));
    THROWN(InvalidArgument, workspace.floats({kLargest, 3}));
    THROWN(InvalidArgument, workspace.array<double>(kLargest / 4));
    // Bytes that fit 63 bits, but not when they are rounded up, or added to what is taken.
    THROWN(std::bad_alloc, workspace.array<std::byte>(kLargest));
    THROWN(std::bad_alloc, workspace.array<std::byte>(kLargest - 100));
    const View view = workspace.floats({16});
    fill(view, 5.0F);
    EXPECT(is_filled(view, 5.0F));
  }
}

void check_threads() {
  Workspace workspace;
  workspace.reserve_threads(3);
  Workspace* const first = &workspace.of_thread(0);
  EXPECT(first != &workspace.of_thread(1) && first != &workspace);
  workspace.reserve_threads(2);
  workspace.reserve_threads(5);
  EXPECT(&workspace.of_thread(0) == first);  // kept
  {
    const Scope scope(workspace.of_thread(4));
    workspace.of_thread(4).floats({10});
  }
  EXPECT(workspace.capacity_bytes() == workspace.of_thread(4).capacity_bytes());
  EXPECT(workspace.capacity_bytes() > 0);
  for (const int thread : {-1, 5, 1 << 30}) THROWN(InternalError, workspace.of_thread(thread));
}

#ifdef CORE_CHECK_FORK
// True if `body` ends its process with an abort.
template <class Body>
bool aborts(const Body& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    std::signal(SIGABRT, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void check_order() {
  EXPECT(!aborts([] {
    Workspace workspace;
    std::optional<Scope> first, second;
    first.emplace(workspace);
    second.emplace(workspace);
    second.reset();
    first.reset();
  }));
  EXPECT(aborts([] {
    Workspace workspace;
    std::optional<Scope> first, second;
    first.emplace(workspace);
    second.emplace(workspace);
    first.reset();
  }));
}
#else
void check_order() {}
#endif

}  // namespace

void core_check::check_workspace() {
  check_scopes();
  check_growth();
  check_results_outside_of_scopes();
  check_freed_memory();
  check_exceptions();
  check_sizes();
  check_threads();
  check_order();
}
