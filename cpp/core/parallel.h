#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

namespace sam_rlx {

// Work is told in multiply-adds of a matrix product, of which a core does 10 to 100 in a
// nanosecond. A thread that a loop wakes has so much at least: it takes the time of waking one.
// docs/develop/optimizations.md: thread-work.
constexpr std::int64_t kMinThreadWork = 1 << 17;
// Other work, in the same unit: a number that is read and written, and one of which an exponential,
// a root or the like is made.
constexpr std::int64_t kNumberWork = 8;
constexpr std::int64_t kFunctionWork = 32;

// The threads among which `work` is shared, at most `num_threads`: each has kMinThreadWork or more.
int threads_for(int num_threads, std::int64_t work) noexcept;

// Makes fork() safe after a parallel region: the child begins with threads of its own. Called once,
// when the extension is loaded.
void install_fork_handler();

// The core that the calling thread runs on; -1 where the system does not tell.
int current_core() noexcept;

// Moves the calling thread away from `core` if it runs there, and there are cores for all of `team`
// threads. Afterwards it may use the same cores as before. True if it moved.
bool leave_core(int core, int team) noexcept;

// What a loop of the calling thread did, for tests.
struct LoopRecord {
  int asked = 0;          // num_threads
  int threads = 0;        // that got work
  std::int64_t work = 0;  // of the whole loop
  std::int64_t ranges = 0;
};
// Loops that the calling thread opens are added to `records` from now on; null ends it.
void record_loops(std::vector<LoopRecord>* records) noexcept;

// A loop without its body: [0, count) in ranges of at most `grain`, each index of which is `work`.
struct Loop {
  int num_threads = 1;
  std::int64_t count = 0, grain = 1, work = kMinThreadWork;
};

namespace detail {
using LoopBody = void (*)(const void* body, std::int64_t begin, std::int64_t end, int thread);
void run_loop(const Loop& loop, LoopBody call, const void* body);
}  // namespace detail

// Calls body(begin, end, thread) for consecutive ranges of at most `grain` out of [0, count), on as
// many threads as the work is enough for, `num_threads` at most; thread is in [0, num_threads). The
// ranges do not depend on the number of threads, so neither do results. Every thread gets at least
// one range, so that its scratch memory is grown after one call; who is free takes the next one. A
// nested call runs on the calling thread. The first exception is raised again after the loop.
template <class Body>
void parallel_for(const Loop& loop, const Body& body) {
  const auto call = [](const void* x, std::int64_t begin, std::int64_t end, int thread) {
    (*static_cast<const Body*>(x))(begin, end, thread);
  };
  detail::run_loop(loop, call, &body);
}

// The same where each index is worth a thread: a window, a mask, a block of a product.
template <class Body>
void parallel_for(int num_threads, std::int64_t count, std::int64_t grain, const Body& body) {
  parallel_for({.num_threads = num_threads, .count = count, .grain = grain}, body);
}

}  // namespace sam_rlx
