#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sam_rlx {

// Index of a zip archive whose entries are stored uncompressed. Names are only compared, never
// used as paths. Raises CheckpointError when the archive is damaged, compressed, encrypted, split
// over several files, or when entries share a name or bytes.
class ZipArchive {
 public:
  // `where` names the file in messages. The entries point into `bytes`.
  ZipArchive(std::span<const std::byte> bytes, const std::string& where);

  using Entries = std::unordered_map<std::string, std::span<const std::byte>>;
  const Entries& entries() const { return entries_; }
  // Null when there is no such entry.
  const std::span<const std::byte>* find(const std::string& name) const;

 private:
  Entries entries_;
};

}  // namespace sam_rlx
