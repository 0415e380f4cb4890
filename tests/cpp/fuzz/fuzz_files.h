#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "core/error.h"
#include "loading/model.h"

namespace sam_rlx::fuzz {

// A folder of this process, in memory where the system offers it; it goes with the process.
class Folder {
 public:
  Folder() {
    const std::filesystem::path memory = "/dev/shm";
    const auto parent =
        std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
    path_ = parent / ("sam_rlx_fuzz_" + std::to_string(getpid()));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // A new file each time: the former one may still be mapped.
  std::string write(const char* name, std::span<const std::uint8_t> bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::remove(file);
    std::ofstream stream(file, std::ios::binary);
    stream.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
    if (!stream.flush()) std::abort();
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

// Loads a model, strictly and not, packed and not. Only errors of the library may come, and those
// of the file system for shards that are not there.
inline void load(const std::string& path) {
  for (const bool strict : {true, false}) {
    ModelOptions options;
    options.strict = strict;
    options.isa = "generic";
    if (!strict) options.precision = "int8";
    try {
      static_cast<void>(Model::load(path, options)->precision());
    } catch (const Error&) {
    } catch (const std::filesystem::filesystem_error&) {
    }
  }
}

}  // namespace sam_rlx::fuzz
