#include "core/cores.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace sam_rlx {
namespace {

int affinity_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

// The beginning of a file, empty if it cannot be read. Not with streams: where the C++ library is
// linked into the extension, their locale can be another one's, and reading a number ends the
// process.
std::string read_text(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return {};
  std::string text(64 * 1024, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

// Takes what stands before the first `end`, or everything, from the front of text.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t size = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, size);
  text.remove_prefix(std::min(size + 1, text.size()));
  return part;
}

// A whole number above 0; 0 for any other text ("max", "-1").
std::int64_t positive(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && value > 0 ? value : 0;
}

double ratio(std::string_view quota, std::string_view period) {
  const std::int64_t above = positive(quota), below = positive(period);
  return above > 0 && below > 0 ? static_cast<double>(above) / static_cast<double>(below) : 0.0;
}

// Quota of one group; 0 where it has none.
double group_quota(const std::string& folder, bool version2) {
  if (version2) {
    const std::string text = read_text(folder + "/cpu.max");
    std::string_view rest = text;
    const std::string_view quota = take_until(rest, ' ');
    return ratio(quota, rest);
  }
  return ratio(read_text(folder + "/cpu.cfs_quota_us"), read_text(folder + "/cpu.cfs_period_us"));
}

// The smallest quota of a group and of those above it.
double smallest_quota(const std::string& mount, std::string group, bool version2) {
  double smallest = 0.0;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    const double quota = group_quota(mount + group, version2);
    if (quota > 0.0 && (smallest == 0.0 || quota < smallest)) smallest = quota;
    if (group.empty()) return smallest;
    const std::size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

bool lists(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    if (take_until(controllers, ',') == name) return true;
  }
  return false;
}

}  // namespace

double quota_cores(const std::string& root, const std::string& memberships) {
  const std::string text = read_text(memberships);
  std::string_view lines = text;
  double smallest = 0.0;
  const auto limit = [&](double quota) {
    if (quota > 0.0 && (smallest == 0.0 || quota < smallest)) smallest = quota;
  };
  while (!lines.empty()) {
    std::string_view line = take_until(lines, '\n');  // number:controllers:group
    take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    if (controllers.empty()) {
      limit(smallest_quota(root, std::string(line), true));
      // Where both versions are mounted, version 2 has a folder of its own.
      limit(smallest_quota(root + "/unified", std::string(line), true));
    } else if (lists(controllers, "cpu")) {
      limit(smallest_quota(root + "/" + std::string(controllers), std::string(line), false));
      limit(smallest_quota(root + "/cpu", std::string(line), false));
    }
  }
  return smallest;
}

int available_cores() {
  const int cores = std::max(1, affinity_cores());
  const double quota = quota_cores("/sys/fs/cgroup", "/proc/self/cgroup");
  if (quota <= 0.0) return cores;
  return std::clamp(static_cast<int>(std::lround(std::min(quota, 1e6))), 1, cores);
}

}  // namespace sam_rlx
