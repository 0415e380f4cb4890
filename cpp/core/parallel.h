#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace sam_rlx {

// Makes fork() safe after a parallel region: GNU OpenMP would hang the child. Called once, when
// the extension is loaded.
void install_fork_handler();

// The core that the calling thread runs on; -1 where the system does not tell.
int current_core() noexcept;

// Moves the calling thread away from `core` if it runs there, and there are cores for all of `team`
// threads. Afterwards it may use the same cores as before. True if it moved.
bool leave_core(int core, int team) noexcept;

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

// Calls body(begin, end, thread) for consecutive ranges of at most `grain` out of [0, count), on
// up to `num_threads` threads; thread is in [0, num_threads). The ranges do not depend on the
// number of threads, so neither do results. Every thread gets at least one range, so that its
// scratch memory is grown after one call; who is free takes the next one. A nested call runs on the
// calling thread. The first exception is raised again after the loop.
template <class Body>
void parallel_for(int num_threads, std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t chunks = (count - 1) / grain + 1;
  const auto run = [&](std::int64_t chunk, int thread) {
    const std::int64_t begin = chunk * grain;
    body(begin, begin + std::min(grain, count - begin), thread);
  };
#ifdef _OPENMP
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads, chunks));
  if (threads > 1 && omp_in_parallel() == 0) {
    std::exception_ptr error;
    std::int64_t error_chunk = chunks;
    std::atomic<std::int64_t> taken = 0;  // beside the first range of each thread
    RegionBarrier barrier;
#pragma omp parallel num_threads(threads)
    {
      const int thread = omp_get_thread_num();
      const std::int64_t team = omp_get_num_threads();
      barrier.join(thread, static_cast<int>(team));
      for (std::int64_t chunk = thread; chunk < chunks; chunk = team + taken.fetch_add(1)) {
        try {
          run(chunk, thread);
        } catch (...) {
#pragma omp critical(sam_rlx_parallel_error)
          if (chunk < error_chunk) {
            error_chunk = chunk;
            error = std::current_exception();
          }
        }
      }
    }
    if (error) std::rethrow_exception(error);
    return;
  }
#endif
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk, 0);
}

}  // namespace sam_rlx
