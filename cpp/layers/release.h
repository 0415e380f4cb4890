#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sam_rlx {

// A file of released weights.
struct ReleasedFile {
  std::string_view version;  // of the family: "2.1"
  std::string name;          // "sam2.1_hiera_tiny.pt"
  std::int64_t bytes = 0;
};

// A variant that was released. A family lists its own in models/<family>/config.cpp, those of a
// source smallest first; whoever names, recognizes or describes them reads the list.
struct Release {
  std::string_view variant;           // "hiera_t"
  std::string_view name;              // in names of files: "tiny"
  std::string_view source;            // page of the repository
  std::string_view license;           // "Apache-2.0"
  std::string_view license_url = {};  // where the license is none that everyone knows
  std::vector<ReleasedFile> files;
};

template <class Sizes>
struct SizedRelease : Release {
  Sizes sizes;
};

}  // namespace sam_rlx
