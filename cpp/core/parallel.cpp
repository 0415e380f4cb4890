#include "core/parallel.h"

#include <chrono>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace sam_rlx {

#if defined(__linux__)

int current_core() noexcept { return sched_getcpu(); }

bool leave_core(int core, int team) noexcept {
  if (core < 0 || core >= CPU_SETSIZE || current_core() != core) return false;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < team) {
    return false;
  }
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

namespace {
using Clock = std::chrono::steady_clock;
thread_local Clock::time_point region_end{};
}  // namespace

RegionBarrier::RegionBarrier() noexcept
    : core_(current_core()), rested_(Clock::now() - region_end > std::chrono::milliseconds(10)) {}

RegionBarrier::~RegionBarrier() { region_end = Clock::now(); }

void RegionBarrier::join(int thread, int team) noexcept {
  if (thread > 0) {
    // Not more often: with other programs on the other cores the system may insist.
    // Times of this class: docs/optimizations.md, barrier.
    constexpr auto kPause = std::chrono::milliseconds(2);
    thread_local Clock::time_point moved{};
    if (current_core() == core_ && Clock::now() - moved > kPause && leave_core(core_, team)) {
      moved = Clock::now();
    }
    running_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (!rested_) return;
  const auto end = Clock::now() + std::chrono::microseconds(50);
  const auto all = [&] { return running_.load(std::memory_order_relaxed) == team - 1; };
  while (!all() && Clock::now() < end) {
  }
  // Asleep, this thread leaves its core to one that waits for it.
  if (!all()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

#else

int current_core() noexcept { return -1; }
bool leave_core(int, int) noexcept { return false; }
RegionBarrier::RegionBarrier() noexcept = default;
RegionBarrier::~RegionBarrier() = default;
void RegionBarrier::join(int, int) noexcept {}

#endif

void install_fork_handler() {
  // LLVM's OpenMP, of Clang, prepares a fork itself; after a hard pause its child would abort.
#if defined(__linux__) && defined(_OPENMP) && !defined(__clang__)
  static const int status =
      pthread_atfork([] { omp_pause_resource_all(omp_pause_hard); }, nullptr, nullptr);
  static_cast<void>(status);
#endif
}

}  // namespace sam_rlx
