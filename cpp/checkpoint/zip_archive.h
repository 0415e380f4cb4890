#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sam_rlx {

struct ZipEntry {
  std::span<const std::byte> data;
  std::uint32_t crc32 = 0;  // as the archive tells it
};

// Index of a zip archive whose entries are stored uncompressed. Names are only compared, never
// used as paths. Raises CheckpointError when the archive is damaged, compressed, encrypted, split
// over several files, or when entries share a name or bytes.
class ZipArchive {
 public:
  // `where` names the file in messages. The entries point into `bytes`.
  ZipArchive(std::span<const std::byte> bytes, const std::string& where);

  // Ordered, as all maps of names from files: names cannot be chosen so that it is slow.
  using Entries = std::map<std::string, ZipEntry, std::less<>>;
  const Entries& entries() const { return entries_; }
  // Null when there is no such entry.
  const ZipEntry* find(std::string_view name) const;

 private:
  Entries entries_;
};

// The names in a zip archive of any kind, the first 10000 of them, in the order of the archive;
// fewer where it is damaged.
std::vector<std::string> zip_names(std::span<const std::byte> bytes);

}  // namespace sam_rlx
