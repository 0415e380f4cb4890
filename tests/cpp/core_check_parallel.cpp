// parallel_for: ranges, threads, work, exceptions, nesting, and a child after fork().

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/wait.h>
#include <unistd.h>
#define CORE_CHECK_FORK
#endif

#include "core/parallel.h"
#include "core_check.h"

namespace {

using Range = std::pair<std::int64_t, std::int64_t>;
using sam_rlx::parallel_for;

// What one loop did: its ranges, and the threads that were seen.
struct Loop {
  std::multiset<Range> ranges;
  std::set<int> threads;
};

Loop run(int num_threads, std::int64_t count, std::int64_t grain) {
  Loop loop;
  std::mutex mutex;
  parallel_for(num_threads, count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    const std::lock_guard lock(mutex);
    loop.ranges.insert({begin, end});
    loop.threads.insert(thread);
  });
  return loop;
}

// Consecutive ranges of at most `grain` that cover [0, count).
std::multiset<Range> ranges(std::int64_t count, std::int64_t grain) {
  std::multiset<Range> result;
  for (std::int64_t begin = 0; begin < count; begin += grain) {
    result.insert({begin, std::min(count, begin + grain)});
  }
  return result;
}

void check_ranges() {
  for (const std::int64_t count : {1, 2, 7, 64, 1000}) {
    for (const std::int64_t grain : {1, 3, 64, 2000}) {
      const std::multiset<Range> expected = ranges(count, grain);
      for (const int num_threads : {-1, 0, 1, 2, 3, 8, 100}) {
        const Loop loop = run(num_threads, count, grain);
        EXPECT(loop.ranges == expected);
        EXPECT(*loop.threads.begin() >= 0);
        EXPECT(*loop.threads.rbegin() < std::max(1, num_threads));
      }
    }
  }
  for (const std::int64_t grain : {0, -1, std::numeric_limits<int>::min()}) {
    EXPECT(run(2, 5, grain).ranges == ranges(5, 1));
  }
  for (const std::int64_t count : {0, -1, std::numeric_limits<int>::min()}) {
    EXPECT(run(2, count, 1).ranges.empty());
  }
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT((run(2, 5, kLargest).ranges == std::multiset<Range>{{0, 5}}));
}

// Each thread of a loop takes part, whichever is the quickest: its scratch memory is warm after
// one call.
void check_every_thread_works() {
  for (const int num_threads : {2, 3, 5}) {
    for (int round = 0; round < 10; ++round) {
      const Loop loop = run(num_threads, num_threads, 1);
      EXPECT(loop.threads.size() == static_cast<std::size_t>(num_threads));
    }
  }
  EXPECT(run(8, 3, 1).threads.size() == 3);  // no more threads than ranges
}

// A thread takes part for each kMinThreadWork, up to those that are asked for and to the ranges.
void check_work() {
  using sam_rlx::kMinThreadWork;
  using sam_rlx::threads_for;
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  for (const int asked : {-1, 0, 1}) EXPECT(threads_for(asked, kLargest) == 1);
  for (const std::int64_t work : {std::int64_t{0}, std::int64_t{-1}, kMinThreadWork - 1}) {
    EXPECT(threads_for(8, work) == 1);
  }
  EXPECT(threads_for(8, kMinThreadWork) == 1);
  EXPECT(threads_for(8, 3 * kMinThreadWork - 1) == 2);
  EXPECT(threads_for(8, 3 * kMinThreadWork) == 3);
  EXPECT(threads_for(8, kLargest) == 8);

  std::vector<sam_rlx::LoopRecord> records;
  sam_rlx::record_loops(&records);
  // Large regions and small ones in turns; with OpenMP the small ones open as large ones do.
  for (int round = 0; round < 100; ++round) {
    for (const std::int64_t threads : {5, 2, 1}) {
      std::mutex mutex;
      std::set<int> seen;
      const std::int64_t work = threads * kMinThreadWork / 20;
      parallel_for({6, 20, 1, work + 1}, [&](std::int64_t, std::int64_t, int thread) {
        const std::lock_guard lock(mutex);
        seen.insert(thread);
      });
      EXPECT(seen.size() == static_cast<std::size_t>(threads));
      EXPECT(records.back().asked == 6 && records.back().threads == threads);
      EXPECT(records.back().work == 20 * (work + 1) && records.back().ranges == 20);
    }
  }
  parallel_for({3, kLargest / 4, kLargest / 8, kLargest}, [](std::int64_t, std::int64_t, int) {});
  EXPECT(records.back().work == kLargest && records.back().threads == 3);
  // Those of one thread, and those inside of others, count nothing.
  const std::size_t before = records.size();
  run(1, 9, 2);
  parallel_for(2, 2, 1, [](std::int64_t, std::int64_t, int) { run(2, 9, 2); });
  EXPECT(records.size() == before + 1);
  sam_rlx::record_loops(nullptr);
  run(2, 9, 2);
  EXPECT(records.size() == before + 1);
}

// Threads that open regions of their own at the same time, and end.
void check_callers() {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        if (run(3, 20, 1).ranges != ranges(20, 1)) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT(wrong == 0);
}

void check_exceptions() {
  for (const int num_threads : {1, 2, 3, 8}) {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> raised = 0;
      const auto body = [&](std::int64_t begin, std::int64_t, int) {
        if (begin != 12 && begin != 17 && begin != 40) return;
        ++raised;
        throw std::runtime_error(std::to_string(begin));
      };
      EXPECT(THROWN(std::runtime_error, parallel_for(num_threads, 50, 1, body)) == "12");
      EXPECT(raised == (num_threads == 1 ? 1 : 3));
    }
  }
  // Any type, and a loop after it works.
  EXPECT(THROWN(sam_rlx::StateError, parallel_for(3, 9, 2, [](std::int64_t, std::int64_t, int) {
                  throw sam_rlx::StateError("busy");
                })) == "busy");
  EXPECT(run(3, 9, 2).ranges == ranges(9, 2));
}

void check_nesting() {
  std::atomic<std::int64_t> sum = 0;
  std::atomic<bool> on_caller = true;
  parallel_for(3, 6, 1, [&](std::int64_t outer, std::int64_t, int) {
    parallel_for(3, 10, 2, [&](std::int64_t begin, std::int64_t end, int thread) {
      if (thread != 0) on_caller = false;
      for (std::int64_t i = begin; i < end; ++i) sum += outer * i;
    });
  });
  EXPECT(sum == 15 * 45);
  EXPECT(on_caller);
  const auto failing = [](std::int64_t outer, std::int64_t, int) {
    parallel_for(3, 10, 2, [&](std::int64_t begin, std::int64_t, int) {
      if (outer >= 2 && begin >= 4) {
        throw std::runtime_error(std::to_string(outer) + " " + std::to_string(begin));
      }
    });
  };
  EXPECT(THROWN(std::runtime_error, parallel_for(3, 6, 1, failing)) == "2 4");
}

#ifdef CORE_CHECK_FORK
// A child that forgets the parent's threads would wait for them for ever: the alarm ends it.
void check_fork() {
  sam_rlx::install_fork_handler();
  sam_rlx::install_fork_handler();
  for (int round = 0; round < 3; ++round) {
    EXPECT(run(3, 20, 1).ranges == ranges(20, 1));
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(3600);
      _exit(run(3, 20, 1).ranges == ranges(20, 1) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT(run(3, 20, 1).ranges == ranges(20, 1));
}
#else
void check_fork() {}
#endif

}  // namespace

void core_check::check_parallel() {
  check_ranges();
  check_every_thread_works();
  check_work();
  check_callers();
  check_exceptions();
  check_nesting();
  check_fork();
}
