#include "checkpoint/torch_archive.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/byte_reader.h"
#include "checkpoint/crc32.h"
#include "checkpoint/pickle.h"
#include "checkpoint/text.h"
#include "checkpoint/torch_state.h"
#include "checkpoint/zip_archive.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

// The folder that holds data.pkl, with its slash. It may have any name.
std::string find_folder(const ZipArchive& zip, const std::string& where) {
  std::string folder;
  for (const auto& entry : zip.entries()) {
    const std::string& name = entry.first;
    if (!name.ends_with(kPickleName)) continue;
    if (!folder.empty()) {
      fail<CheckpointError>(where, "one data.pkl in the archive", "several");
    }
    folder = name.substr(0, name.size() - kPickleName.size() + 1);
  }
  if (folder.empty()) fail<CheckpointError>(where, "a PyTorch archive with data.pkl", "none");
  return folder;
}

constexpr std::string_view kScriptName = "/constants.pkl";

[[noreturn]] void refuse_script(const std::string& where) {
  throw UnsupportedError(
      where +
      ": expected a state dict, found a TorchScript archive; save its weights with PyTorch: "
      "torch.save(torch.jit.load(FILE).state_dict(), OUTPUT)");
}

// TorchScript compresses its code, which no archive of weights has: its names are at the end of the
// file, where the table of an archive is.
ZipArchive open_archive(std::span<const std::byte> bytes, const std::string& where) {
  constexpr std::size_t kTail = std::size_t{1} << 20;
  try {
    return {bytes, where};
  } catch (const CheckpointError&) {
    const std::span<const std::byte> tail = bytes.last(std::min(bytes.size(), kTail));
    if (as_text(tail).find(kScriptName) != std::string_view::npos) refuse_script(where);
    throw;
  }
}

void check_kind(const ZipArchive& zip, const std::string& folder, const std::string& where) {
  if (zip.find(folder + std::string(kScriptName.substr(1))) != nullptr) refuse_script(where);
  const auto* const byteorder = zip.find(folder + "byteorder");
  if (byteorder != nullptr && as_text(byteorder->data) != "little") {
    throw UnsupportedError(where + ": expected byte order little, found " +
                           printable(as_text(byteorder->data)));
  }
}

// The storages by their keys. Looking one up does not touch the folder's name, which may be long.
std::map<std::string_view, ZipEntry> list_storages(const ZipArchive& zip,
                                                   const std::string& folder) {
  const std::string begin = folder + "data/";
  std::map<std::string_view, ZipEntry> storages;
  for (const auto& [name, entry] : zip.entries()) {
    if (name.starts_with(begin))
      storages.emplace(std::string_view(name).substr(begin.size()), entry);
  }
  return storages;
}

// PyTorch writes no checksums on request: 0 for all entries. A storage alone that has none was
// written without its numbers, which another program may have filled in since.
void check_filled(const ZipEntry& entry, const std::string& location) {
  const bool empty = std::all_of(entry.data.begin(), entry.data.end(),
                                 [](std::byte byte) { return byte == std::byte{0}; });
  if (empty) {
    fail<CheckpointError>(location, "numbers",
                          "none: it was written without them (torch.serialization.skip_data)");
  }
}

}  // namespace

StateDict read_torch_archive(std::span<const std::byte> bytes, const std::string& where,
                             const ChooseDict& choose) {
  const ZipArchive zip = open_archive(bytes, where);
  const std::string folder = find_folder(zip, where);
  check_kind(zip, folder, where);
  const ZipEntry& object = *zip.find(folder + "data.pkl");
  const std::string object_name = where + ": data.pkl";
  if (object.crc32 != 0 && object.crc32 != crc32_of(object.data)) {
    fail<CheckpointError>(object_name, "the bytes that its CRC-32 is of",
                          "others: the file is damaged");
  }
  const Pickle pickle = read_pickle(object.data, object_name);
  std::vector<Checksum> checksums;
  std::set<std::string_view> seen;
  const auto storages = list_storages(zip, folder);
  const auto find_storage = [&](const TorchStorage& storage) {
    const auto entry = storages.find(storage.key);
    const std::string location = where + ": storage " + printable(storage.key);
    if (entry == storages.end()) fail<CheckpointError>(location, "an entry in the archive", "none");
    const std::span<const std::byte> data = entry->second.data;
    const auto size = static_cast<std::size_t>(storage.numel * dtype_bytes(storage.dtype));
    if (data.size() != size) {
      fail<CheckpointError>(location, std::to_string(size) + " bytes", std::to_string(data.size()));
    }
    if (object.crc32 == 0 || data.empty() || !seen.insert(storage.key).second) return data;
    if (entry->second.crc32 == 0) {
      check_filled(entry->second, location);
    } else {
      checksums.push_back({data, entry->second.crc32, "storage " + printable(storage.key)});
    }
    return data;
  };
  StateDict result = read_torch_state(*pickle.root, where, find_storage, choose);
  result.origin.container = "PyTorch archive";
  result.checksums = std::move(checksums);
  return result;
}

}  // namespace sam_rlx
