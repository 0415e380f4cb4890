#pragma once

#include <atomic>

namespace sam_rlx {

// Whether a call runs on an object, and in which process.
class BusyFlag {
 public:
  // Raises StateError when a call runs. One that ran in another thread when the process was forked
  // never ends in the child: the object cannot be used there, and the error says so.
  void take(const char* where);
  void give_back() noexcept { process_.store(0, std::memory_order_release); }

 private:
  std::atomic<int> process_ = 0;  // 0: no call runs
};

// Refuses concurrent use of one object: a second call raises StateError. It is the first thing in
// every public method that reads or changes what a call may change.
class InUse {
 public:
  InUse(BusyFlag& flag, const char* where) : flag_(flag) { flag_.take(where); }
  ~InUse() { flag_.give_back(); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  BusyFlag& flag_;
};

}  // namespace sam_rlx
