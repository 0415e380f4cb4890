// Unit tests of cpp/core, built with SAM_RLX_DCHECKS. Runs the groups that the arguments name, or
// all. Prints one line for each failure, and "<group>: <n> failures". Exit status 0: no failure.

#include "core_check.h"

#include <cstdio>
#include <cstring>

namespace {

struct Group {
  const char* name;
  void (*check)();
};
constexpr Group kGroups[] = {
    {"shape", core_check::check_shape},
    {"tensor", core_check::check_tensor},
    {"workspace", core_check::check_workspace},
    {"parallel", core_check::check_parallel},
};

bool chosen(const char* name, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return true;
  }
  return argc == 1;
}

}  // namespace

int main(int argc, char** argv) {
  int ran = 0, total = 0;
  for (const Group& group : kGroups) {
    if (!chosen(group.name, argc, argv)) continue;
    core_check::failures = 0;
    group.check();
    std::printf("%s: %d failures\n", group.name, core_check::failures);
    total += core_check::failures;
    ++ran;
  }
  if (argc > 1 && ran != argc - 1) {
    std::printf("unknown group\n");
    return 2;
  }
  return total == 0 ? 0 : 1;
}
