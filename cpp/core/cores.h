#pragma once

#include <string>

namespace sam_rlx {

// Cores that this process may use: its affinity mask, limited by the CPU quotas of its control
// groups. At least 1.
int available_cores();

// The smallest CPU quota of the control groups of a process, in cores; 0 where none is set.
//   root         the folder where control groups are mounted: /sys/fs/cgroup
//   memberships  the file with the groups of the process: /proc/self/cgroup
// Version 2 has its quota in cpu.max, version 1 in cpu.cfs_quota_us and cpu.cfs_period_us. A group
// obeys the quotas of those above it too. In a container the names of the groups may be the host's,
// which are not there: then the root is the container's own group.
double quota_cores(const std::string& root, const std::string& memberships);

}  // namespace sam_rlx
