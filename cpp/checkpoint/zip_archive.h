#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace sam_rlx {

// Index of a zip archive whose entries are stored uncompressed. Names are only compared, never
// used as paths. Raises CheckpointError when the archive is damaged, compressed, encrypted, split
// over several files, or when entries share a name or bytes.
class ZipArchive {
 public:
  // `where` names the file in messages. The entries point into `bytes`.
  ZipArchive(std::span<const std::byte> bytes, const std::string& where);

  // Ordered, as all maps of names from files: names cannot be chosen so that it is slow.
  using Entries = std::map<std::string, std::span<const std::byte>, std::less<>>;
  const Entries& entries() const { return entries_; }
  // Null when there is no such entry.
  const std::span<const std::byte>* find(std::string_view name) const;

 private:
  Entries entries_;
};

}  // namespace sam_rlx
