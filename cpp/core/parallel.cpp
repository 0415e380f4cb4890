#include "core/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "core/cores.h"

#if defined(SAM_RLX_STD_THREADS)
#include "core/thread_pool.h"
#else
#include <omp.h>
#endif
#if !defined(SAM_RLX_STD_THREADS) || defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#if defined(__linux__)
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

// Sees that the threads of a parallel region begin on cores of their own. Where cores that share no
// cache were idle for long, Linux wakes a thread on the core of the one that wakes it, and leaves
// it there for tens of milliseconds: a click after a pause took twice as long with two threads.
class RegionBarrier {
 public:
  RegionBarrier() noexcept;  // by the thread that opens the region
  ~RegionBarrier();
  RegionBarrier(const RegionBarrier&) = delete;
  RegionBarrier& operator=(const RegionBarrier&) = delete;

  // By each thread of the region, 0 being the one that opened it: it waits, a tenth of a
  // millisecond at most and only after a pause, until the others run.
  void join(int thread, int team) noexcept;

 private:
  int core_ = -1;  // of the thread that opens the region
  bool rested_ = false;
  std::atomic<int> running_ = 0;  // of the others
};

RegionBarrier::RegionBarrier() noexcept
    : core_(current_core()), rested_(Clock::now() - region_end > std::chrono::milliseconds(10)) {}

RegionBarrier::~RegionBarrier() { region_end = Clock::now(); }

void RegionBarrier::join(int thread, int team) noexcept {
  if (thread > 0) {
    // Not more often: with other programs on the other cores the system may insist.
    // Times of this class: docs/develop/optimizations.md, barrier.
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
}  // namespace

#else

int current_core() noexcept { return -1; }
bool leave_core(int, int) noexcept { return false; }
namespace {
struct RegionBarrier {
  void join(int, int) noexcept {}
};
}  // namespace

#endif

namespace {

thread_local std::vector<LoopRecord>* loop_records = nullptr;

// What the threads of one loop share.
class SharedLoop {
 public:
  SharedLoop(const Loop& loop, detail::LoopBody call, const void* body)
      : call_(call),
        body_(body),
        count_(loop.count),
        grain_(std::max<std::int64_t>(loop.grain, 1)),
        ranges_((count_ - 1) / grain_ + 1),
        error_range_(ranges_) {}

  std::int64_t ranges() const { return ranges_; }

  void run_all() const {
    for (std::int64_t range = 0; range < ranges_; ++range) run(range, 0);
  }

  // What one thread of `team` does: its first range, then those that nobody has taken.
  void run_share(int thread, int team) noexcept {
    for (std::int64_t range = thread; range < ranges_; range = team + taken_.fetch_add(1)) {
      try {
        run(range, thread);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (range >= error_range_) continue;
        error_range_ = range;
        error_ = std::current_exception();
      }
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run(std::int64_t range, int thread) const {
    const std::int64_t begin = range * grain_;
    call_(body_, begin, begin + std::min(grain_, count_ - begin), thread);
  }

  detail::LoopBody call_;
  const void* body_;
  std::int64_t count_, grain_, ranges_;
  std::atomic<std::int64_t> taken_ = 0;  // beside the first range of each thread
  std::mutex mutex_;
  std::int64_t error_range_;
  std::exception_ptr error_;
};

#if defined(SAM_RLX_STD_THREADS)

bool in_region() noexcept { return ThreadPool::in_region(); }

void run_region(SharedLoop& shared, int threads, int /*asked*/) {
  struct Region {
    SharedLoop& shared;
    RegionBarrier barrier;
    int team;
  };
  ThreadPool& pool = ThreadPool::of_this_thread();
  Region region{shared, {}, pool.reserve(threads)};
  pool.run(
      region.team,
      [](void* data, int thread) {
        auto& r = *static_cast<Region*>(data);
        r.barrier.join(thread, r.team);
        r.shared.run_share(thread, r.team);
      },
      &region);
}

#else

bool in_region() noexcept { return omp_in_parallel() != 0; }

// Threads of the next region: as many as the largest of the last 64 needed, but not more than are
// asked for. GNU OpenMP ends threads that a smaller region leaves out and makes them anew for a
// larger one, which took 450 to 650 us for regions of 16 and 8 in turns.
int region_size(int threads, int asked) noexcept {
  thread_local std::array<int, 64> recent{};
  thread_local std::size_t next = 0;
  recent[next++ % recent.size()] = threads;
  return std::min(asked, *std::max_element(recent.begin(), recent.end()));
}

// Of the calling thread's last region: so many threads wait for its next one.
thread_local int team_size = 1;

// Threads that the system starts now, beside those that there are, `wanted` at most. They are no
// std::thread: that frees memory in the thread, for which the C library may reserve 64 MB, and what
// was found for stacks is gone.
int startable(int wanted) noexcept {
  std::mutex gate;
  std::vector<pthread_t> threads;
  try {
    threads.reserve(static_cast<std::size_t>(wanted));
  } catch (const std::bad_alloc&) {
    return 0;
  }
  const auto wait = [](void* closed) -> void* {
    const std::lock_guard lock(*static_cast<std::mutex*>(closed));
    return nullptr;
  };
  {
    const std::lock_guard lock(gate);  // all are there at once
    pthread_t thread{};
    for (int i = 0; i < wanted && pthread_create(&thread, nullptr, wait, &gate) == 0; ++i) {
      threads.push_back(thread);
    }
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  const int started = static_cast<int>(threads.size());
  // OpenMP allocates a little of its own: where one was refused, it gets the room of another one.
  return started < wanted ? std::max(started - 1, 0) : started;
}

// The size of a region of `size` threads where the system may refuse some, as it does where the
// processes of a container are limited: GNU OpenMP would end the process.
int permitted_size(int size) noexcept {
  const int grown = size - team_size;
  if (grown > 0) size = team_size + startable(grown);
  team_size = size;
  return size;
}

void run_region(SharedLoop& shared, int threads, int asked) {
  const int before = team_size;
  const int size = permitted_size(region_size(threads, asked));
  // New threads get the mask of this one.
  const WholeAffinity affinity(size > before);
  RegionBarrier barrier;
#pragma omp parallel num_threads(size)
  {
    const int thread = omp_get_thread_num();
    const int team = std::min(threads, omp_get_num_threads());
    // Who has no work goes straight to the end.
    if (thread < team) {
      barrier.join(thread, team);
      shared.run_share(thread, team);
    }
  }
}

#endif

}  // namespace

int threads_for(int num_threads, std::int64_t work) noexcept {
  return static_cast<int>(
      std::clamp<std::int64_t>(work / kMinThreadWork, 1, std::max(num_threads, 1)));
}

void record_loops(std::vector<LoopRecord>* records) noexcept { loop_records = records; }

void detail::run_loop(const Loop& loop, LoopBody call, const void* body) {
  if (loop.count <= 0) return;
  SharedLoop shared(loop, call, body);
  if (loop.num_threads <= 1 || in_region()) return shared.run_all();
  const bool huge = loop.work > std::numeric_limits<std::int64_t>::max() / loop.count;
  const std::int64_t work =
      huge ? std::numeric_limits<std::int64_t>::max() : loop.count * loop.work;
  const int threads = static_cast<int>(
      std::min<std::int64_t>(threads_for(loop.num_threads, work), shared.ranges()));
  if (loop_records != nullptr) {
    loop_records->push_back({loop.num_threads, threads, work, shared.ranges()});
  }
  if (threads <= 1) return shared.run_all();
  run_region(shared, threads, loop.num_threads);
  shared.rethrow();
}

void install_fork_handler() {
#if defined(SAM_RLX_STD_THREADS)
#if defined(__unix__) || defined(__APPLE__)
  static const int status = pthread_atfork(nullptr, nullptr, [] { ThreadPool::forget_threads(); });
  static_cast<void>(status);
#endif
#elif defined(__linux__) && !defined(__clang__)
  // LLVM's OpenMP, of Clang, prepares a fork itself; after a hard pause its child would abort.
  const auto end_threads = [] {
    omp_pause_resource_all(omp_pause_hard);
    team_size = 1;
  };
  static const int status = pthread_atfork(end_threads, nullptr, nullptr);
  static_cast<void>(status);
#endif
}

}  // namespace sam_rlx
