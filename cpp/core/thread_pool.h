#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace sam_rlx {

// Threads that sleep until the thread they belong to opens a region. For builds without OpenMP:
// SAM_RLX_THREADS=std.
class ThreadPool {
 public:
  using Task = void (*)(void* data, int thread);

  ThreadPool();
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Starts threads until there are so many, with the calling one. Returns how many there are: fewer
  // where the system refuses more.
  int reserve(int threads);

  // Calls task(data, thread) for thread in [0, threads), each on a thread of its own and 0 on the
  // calling one, and returns when all have ended. No more than were reserved; a task raises
  // nothing.
  void run(int threads, Task task, void* data) noexcept;

  // The pool of the calling thread. A child after fork() gets a new one: its parent's threads are
  // not there.
  static ThreadPool& of_this_thread();
  // Whether the calling thread is inside of a region, of any pool.
  static bool in_region() noexcept;
  // Called in the child of a fork.
  static void forget_threads() noexcept;

 private:
  class Worker;
  void end_one() noexcept;

  std::vector<std::unique_ptr<Worker>> workers_;  // thread i + 1
  std::atomic<int> running_ = 0;                  // of this region
  std::mutex mutex_;
  std::condition_variable ended_;
};

}  // namespace sam_rlx
