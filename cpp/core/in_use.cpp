#include "core/in_use.h"

#include "core/error.h"

#if defined(_WIN32)
#include <process.h>
#else
#include <unistd.h>
#endif

namespace sam_rlx {
namespace {

int this_process() noexcept {
#if defined(_WIN32)
  return _getpid();
#else
  return static_cast<int>(getpid());
#endif
}

}  // namespace

void BusyFlag::take(const char* where) {
  const int self = this_process();
  int running = 0;
  if (process_.compare_exchange_strong(running, self, std::memory_order_acquire)) return;
  if (running == self) fail<StateError>(where, "one call at a time", "it in use");
  fail<StateError>(where, "one that no call used when the process was forked",
                   "one that was in use: make a new one");
}

}  // namespace sam_rlx
