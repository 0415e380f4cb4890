#include "core/cores.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <thread>

#include "core/parallel.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace sam_rlx {
namespace {

#if defined(__linux__)
cpu_set_t kept_mask{};  // of keep_affinity; empty before

// The mask of the calling thread. Unknown on machines with more CPUs than a cpu_set_t has.
bool read_mask(cpu_set_t& mask) noexcept { return sched_getaffinity(0, sizeof mask, &mask) == 0; }

// Whether the mask of a thread is what an OpenMP runtime has left of the kept one.
bool is_bound(const cpu_set_t& mask) noexcept {
  cpu_set_t common;
  CPU_AND(&common, &mask, &kept_mask);
  return CPU_EQUAL(&common, &mask) && !CPU_EQUAL(&mask, &kept_mask);
}
#endif

int affinity_cores() {
  const auto count = static_cast<int>(allowed_cpus().size());
  return count > 0 ? count : static_cast<int>(std::thread::hardware_concurrency());
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

#if defined(__linux__)

void keep_affinity() {
#if defined(_OPENMP)
  omp_get_max_threads();  // some runtimes read their settings at the first call
#endif
  if (!read_mask(kept_mask)) CPU_ZERO(&kept_mask);
}

std::vector<int> allowed_cpus() {
  cpu_set_t mask;
  if (!read_mask(mask)) return {};
  if (is_bound(mask)) mask = kept_mask;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

WholeAffinity::WholeAffinity(bool wanted) noexcept {
  changed_ = wanted && read_mask(before_) && is_bound(before_) &&
             sched_setaffinity(0, sizeof kept_mask, &kept_mask) == 0;
}

WholeAffinity::~WholeAffinity() {
  if (changed_) sched_setaffinity(0, sizeof before_, &before_);
}

#else

void keep_affinity() {}
std::vector<int> allowed_cpus() { return {}; }
WholeAffinity::WholeAffinity(bool) noexcept {}
WholeAffinity::~WholeAffinity() = default;

#endif

int available_cores() {
  const int cores = std::max(1, affinity_cores());
  const double quota = quota_cores("/sys/fs/cgroup", "/proc/self/cgroup");
  if (quota <= 0.0) return cores;
  return std::clamp(static_cast<int>(std::lround(std::min(quota, 1e6))), 1, cores);
}

int loading_threads(std::int64_t work) {
  return work < 16 * kMinThreadWork ? 1 : available_cores();
}

}  // namespace sam_rlx
