#pragma once

#include <cstdint>
#include <string>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace sam_rlx {

// Cores that this process may use: its affinity mask, limited by the CPU quotas of its control
// groups. At least 1.
int available_cores();

// Threads for work, told as in core/parallel.h, that is done once, when a model is loaded. To ask
// how many cores there are takes longer than a little of it.
int loading_threads(std::int64_t work);

// Says that OpenMP runtimes may bind threads to cores: from now on a part of the calling thread's
// mask of now, as the mask of some thread, is taken for the work of such a runtime. Reads the
// settings of this process's runtime.
void keep_affinity();

// The CPUs that threads of this process may use, in order: the mask of the calling thread, or the
// kept one where a runtime has bound it. Empty where the system has no masks.
std::vector<int> allowed_cpus();

// While it exists, the calling thread may use all of `allowed_cpus`, so that the threads it starts
// may too.
class WholeAffinity {
 public:
  explicit WholeAffinity(bool wanted) noexcept;
  ~WholeAffinity();
  WholeAffinity(const WholeAffinity&) = delete;
  WholeAffinity& operator=(const WholeAffinity&) = delete;

 private:
#if defined(__linux__)
  cpu_set_t before_{};
#endif
  bool changed_ = false;
};

// The smallest CPU quota of the control groups of a process, in cores; 0 where none is set.
//   root         the folder where control groups are mounted: /sys/fs/cgroup
//   memberships  the file with the groups of the process: /proc/self/cgroup
// Version 2 has its quota in cpu.max, version 1 in cpu.cfs_quota_us and cpu.cfs_period_us. A group
// obeys the quotas of those above it too. In a container the names of the groups may be the host's,
// which are not there: then the root is the container's own group.
double quota_cores(const std::string& root, const std::string& memberships);

}  // namespace sam_rlx
