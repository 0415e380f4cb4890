#include "core/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <system_error>
#include <thread>

namespace sam_rlx {
namespace {

thread_local bool in_parallel_region = false;
std::atomic<unsigned> forks = 0;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Waits for ready(), shortly: the next op of a network follows within microseconds, and waking a
// thread that sleeps takes longer. docs/develop/optimizations.md: thread-work.
template <class Ready>
bool spin_until(const Ready& ready) noexcept {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

class ThreadPool::Worker {
 public:
  Worker(ThreadPool& pool, int thread) : pool_(pool), index_(thread), thread_([this] { loop(); }) {}
  ~Worker() {
    give(nullptr, nullptr);
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // A task, or the end where it is null.
  void give(Task task, void* data) noexcept {
    {
      const std::lock_guard lock(mutex_);
      task_ = task;
      data_ = data;
      given_.store(true, std::memory_order_release);
    }
    wake_.notify_one();
  }

 private:
  void loop() noexcept {
    in_parallel_region = true;
    const auto given = [&] { return given_.load(std::memory_order_acquire); };
    for (;;) {
      if (!spin_until(given)) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, given);
      }
      given_.store(false, std::memory_order_relaxed);
      if (task_ == nullptr) return;
      task_(data_, index_);
      pool_.end_one();
    }
  }

  ThreadPool& pool_;
  int index_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> given_ = false;
  Task task_ = nullptr;
  void* data_ = nullptr;
  std::thread thread_;  // the last member: it uses the others
};

ThreadPool::ThreadPool() = default;
// First the threads: the last of a region may still hold the lock.
ThreadPool::~ThreadPool() { workers_.clear(); }

int ThreadPool::reserve(int threads) {
  try {
    while (static_cast<int>(workers_.size()) + 1 < threads) {
      const int next = static_cast<int>(workers_.size()) + 1;
      workers_.push_back(std::make_unique<Worker>(*this, next));
    }
  } catch (const std::system_error&) {
    // A limit on threads: the work is shared among those that there are.
  }
  return std::min(threads, static_cast<int>(workers_.size()) + 1);
}

void ThreadPool::run(int threads, Task task, void* data) noexcept {
  running_.store(threads - 1, std::memory_order_relaxed);
  for (int i = 0; i + 1 < threads; ++i) workers_[static_cast<std::size_t>(i)]->give(task, data);
  in_parallel_region = true;
  task(data, 0);
  in_parallel_region = false;
  const auto ended = [&] { return running_.load(std::memory_order_acquire) == 0; };
  if (spin_until(ended)) return;
  std::unique_lock lock(mutex_);
  ended_.wait(lock, ended);
}

void ThreadPool::end_one() noexcept {
  if (running_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  // Under the lock: the owner does not begin to wait between its last look and this.
  const std::lock_guard lock(mutex_);
  ended_.notify_one();
}

ThreadPool& ThreadPool::of_this_thread() {
  struct Owner {
    ThreadPool* pool = nullptr;
    unsigned forks_seen = 0;
    ~Owner() {
      if (forks_seen == forks.load()) delete pool;
    }
  };
  thread_local Owner owner;
  if (owner.pool == nullptr || owner.forks_seen != forks.load()) {
    // After a fork the parent's pool is left as it is: threads that are not there cannot be joined.
    owner.pool = new ThreadPool;
    owner.forks_seen = forks.load();
  }
  return *owner.pool;
}

bool ThreadPool::in_region() noexcept { return in_parallel_region; }

void ThreadPool::forget_threads() noexcept {
  in_parallel_region = false;
  forks.fetch_add(1);
}

}  // namespace sam_rlx
