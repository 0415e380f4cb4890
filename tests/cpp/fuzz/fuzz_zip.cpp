// libFuzzer target: any bytes as a zip archive. Entries lie in the bytes and do not overlap.

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/zip_archive.h"
#include "core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const sam_rlx::ZipArchive zip(bytes, "fuzz");
    std::size_t total = 0;
    for (const auto& [name, entry] : zip.entries()) {
      if (entry.data() < bytes.data() || entry.data() + entry.size() > bytes.data() + size) {
        __builtin_trap();
      }
      total += entry.size();
    }
    if (total > size) __builtin_trap();
  } catch (const sam_rlx::Error&) {
  }
  return 0;
}
