#include "core/parallel.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace sam_rlx {
namespace {

int affinity_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

// CPU quota of the control group (version 2), in cores; 0 when there is none.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double cores = std::stod(quota) / period;
  return std::max(1, static_cast<int>(cores + 0.5));
}

}  // namespace

int available_cores() {
  const int cores = std::max(1, affinity_cores());
  const int quota = quota_cores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

void install_fork_handler() {
#if defined(__linux__) && defined(_OPENMP)
  static const int status =
      pthread_atfork([] { omp_pause_resource_all(omp_pause_hard); }, nullptr, nullptr);
  static_cast<void>(status);
#endif
}

}  // namespace sam_rlx
