#include "checkpoint/zip_archive.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "checkpoint/byte_reader.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint32_t kSaturated32 = 0xFFFFFFFF;
constexpr std::uint16_t kSaturated16 = 0xFFFF;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kLocatorSize = 20;

struct Directory {
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t count;
};

struct CentralEntry {
  std::string name;
  std::uint64_t size;
  std::uint64_t header_offset;
  std::uint16_t flags, method;
  std::uint32_t crc32;
};

struct Extent {
  std::size_t begin;
  std::size_t end;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where) {}

  ZipArchive::Entries read() {
    const Directory directory = find_directory();
    ByteReader central = open_directory(directory);
    ZipArchive::Entries entries;
    std::vector<Extent> extents;
    for (std::uint64_t i = 0; i < directory.count; ++i) {
      const CentralEntry entry = take_central(central);
      check_stored(entry);
      const auto [data, extent] = locate(entry);
      extents.push_back(extent);
      if (!entries.emplace(entry.name, ZipEntry{data, entry.crc32}).second) {
        fail<CheckpointError>(location(entry.name), "one entry of this name", "two");
      }
    }
    check_extents(std::move(extents));
    return entries;
  }

  void list(std::vector<std::string>& names) {
    constexpr std::uint64_t kMaxNames = 10'000;
    const Directory directory = find_directory();
    ByteReader central = open_directory(directory);
    for (std::uint64_t i = 0; i < std::min(directory.count, kMaxNames); ++i) {
      names.push_back(take_central(central).name);
    }
  }

 private:
  ByteReader open_directory(const Directory& directory) {
    if (directory.offset > bytes_.size() || directory.size > bytes_.size() - directory.offset) {
      refuse("a central directory inside the file", "one that ends outside");
    }
    data_end_ = static_cast<std::size_t>(directory.offset);
    return {bytes_.subspan(data_end_, static_cast<std::size_t>(directory.size)),
            where_ + ": central directory"};
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& found) const {
    fail<CheckpointError>(where_, expected, found);
  }
  std::string location(std::string_view name) const { return where_ + ": " + printable(name); }

  template <class T>
  T peek(std::size_t position) const {
    return ByteReader(bytes_, where_, position).take<T>();
  }

  // The end record is the last thing in the file but for its comment.
  std::size_t find_end() const {
    constexpr std::size_t kLongestComment = 0xFFFF;
    if (bytes_.size() >= kEndSize) {
      const std::size_t last = bytes_.size() - kEndSize;
      const std::size_t first = last > kLongestComment ? last - kLongestComment : 0;
      for (std::size_t at = last + 1; at-- > first;) {
        if (peek<std::uint32_t>(at) == kEndSignature && peek<std::uint16_t>(at + 20) == last - at) {
          return at;
        }
      }
    }
    refuse("a complete zip archive", "no end record: the file is cut off or damaged");
  }

  Directory find_directory() const {
    const std::size_t end = find_end();
    ByteReader reader(bytes_, where_, end + 4);
    const auto disk = reader.take<std::uint16_t>();
    const auto directory_disk = reader.take<std::uint16_t>();
    const auto count_here = reader.take<std::uint16_t>();
    const auto count = reader.take<std::uint16_t>();
    const auto size = reader.take<std::uint32_t>();
    const auto offset = reader.take<std::uint32_t>();
    if (end >= kLocatorSize && peek<std::uint32_t>(end - kLocatorSize) == kLocator64Signature) {
      return read_end64(end - kLocatorSize);
    }
    if (disk != 0 || directory_disk != 0 || count_here != count) {
      refuse("a zip archive in one file", "one of several parts");
    }
    return {offset, size, count};
  }

  Directory read_end64(std::size_t locator) const {
    const auto end64 = peek<std::uint64_t>(locator + 8);
    if (end64 >= locator) refuse("a zip64 end record before its locator", "one behind it");
    ByteReader reader(bytes_, where_ + ": zip64 end record", static_cast<std::size_t>(end64));
    if (reader.take<std::uint32_t>() != kEnd64Signature) {
      refuse("a zip64 end record where its locator says", "other bytes");
    }
    reader.take_bytes(8 + 2 + 2);  // size of the record, versions
    const auto disk = reader.take<std::uint32_t>();
    const auto directory_disk = reader.take<std::uint32_t>();
    const auto count_here = reader.take<std::uint64_t>();
    const auto count = reader.take<std::uint64_t>();
    const auto size = reader.take<std::uint64_t>();
    const auto offset = reader.take<std::uint64_t>();
    if (disk != 0 || directory_disk != 0 || count_here != count) {
      refuse("a zip archive in one file", "one of several parts");
    }
    return {offset, size, count};
  }

  CentralEntry take_central(ByteReader& reader) const {
    if (reader.take<std::uint32_t>() != kCentralSignature) {
      refuse("an entry of the central directory", "other bytes");
    }
    reader.take_bytes(2 + 2);  // versions
    const auto flags = reader.take<std::uint16_t>();
    const auto method = reader.take<std::uint16_t>();
    reader.take_bytes(2 + 2);  // time, date
    const auto crc32 = reader.take<std::uint32_t>();
    std::uint64_t stored_size = reader.take<std::uint32_t>();
    std::uint64_t size = reader.take<std::uint32_t>();
    const auto name_length = reader.take<std::uint16_t>();
    const auto extra_length = reader.take<std::uint16_t>();
    const auto comment_length = reader.take<std::uint16_t>();
    const auto disk = reader.take<std::uint16_t>();
    reader.take_bytes(2 + 4);  // attributes
    std::uint64_t offset = reader.take<std::uint32_t>();
    const std::string name(as_text(reader.take_bytes(name_length)));
    ByteReader extra(reader.take_bytes(extra_length), location(name) + ": zip64 sizes");
    reader.take_bytes(comment_length);

    widen_sizes(extra, {&size, &stored_size, &offset});
    const bool plain = method == 0 && (flags & 1) == 0;
    if (plain && (size != stored_size || (disk != 0 && disk != kSaturated16))) {
      fail<CheckpointError>(location(name), std::to_string(size) + " stored bytes in this file",
                            std::to_string(stored_size));
    }
    return {name, size, offset, flags, method, crc32};
  }

  void check_stored(const CentralEntry& entry) const {
    if ((entry.flags & 1) != 0) {
      fail<CheckpointError>(location(entry.name), "no encryption", "an encrypted entry");
    }
    if (entry.method != 0) {
      fail<CheckpointError>(location(entry.name), "an entry stored without compression",
                            "compression method " + std::to_string(entry.method) +
                                "; unpack a zip file around a checkpoint, or write it again with "
                                "torch.save(torch.load(FILE), OUTPUT)");
    }
  }

  // A field that is all ones stands in the zip64 extra block, in this order.
  static void widen_sizes(ByteReader& extra, std::initializer_list<std::uint64_t*> fields) {
    constexpr std::uint16_t kZip64Block = 1;
    while (extra.remaining() >= 4) {
      const auto id = extra.take<std::uint16_t>();
      const auto length = extra.take<std::uint16_t>();
      const std::span<const std::byte> block = extra.take_bytes(length);
      if (id != kZip64Block) continue;
      ByteReader wide(block, extra.where());
      for (std::uint64_t* const field : fields) {
        if (*field == kSaturated32) *field = wide.take<std::uint64_t>();
      }
      return;
    }
  }

  // The data of an entry and all bytes that it takes, local header included.
  std::pair<std::span<const std::byte>, Extent> locate(const CentralEntry& entry) const {
    if (entry.header_offset > data_end_) {
      fail<CheckpointError>(location(entry.name), "a local header before the central directory",
                            "byte " + std::to_string(entry.header_offset));
    }
    const auto begin = static_cast<std::size_t>(entry.header_offset);
    ByteReader reader(bytes_.first(data_end_), location(entry.name), begin);
    if (reader.take<std::uint32_t>() != kLocalSignature) {
      fail<CheckpointError>(location(entry.name), "a local header at byte " + std::to_string(begin),
                            "other bytes");
    }
    reader.take_bytes(22);  // repeats the central directory
    const auto name_length = reader.take<std::uint16_t>();
    const auto extra_length = reader.take<std::uint16_t>();
    const std::string_view name = as_text(reader.take_bytes(name_length));
    if (name != entry.name) {
      fail<CheckpointError>(location(entry.name), "the same name in the local header",
                            quoted(name));
    }
    reader.take_bytes(extra_length);
    const std::span<const std::byte> data = reader.take_bytes(entry.size);
    return {data, {begin, reader.position()}};
  }

  void check_extents(std::vector<Extent> extents) const {
    std::sort(extents.begin(), extents.end(),
              [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < extents.size(); ++i) {
      if (extents[i].begin < extents[i - 1].end) {
        refuse("zip entries that do not overlap",
               "an overlap at byte " + std::to_string(extents[i].begin));
      }
    }
  }

  std::span<const std::byte> bytes_;
  const std::string where_;
  std::size_t data_end_ = 0;
};

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> bytes, const std::string& where)
    : entries_(Reader(bytes, where).read()) {}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<std::string> zip_names(std::span<const std::byte> bytes) {
  std::vector<std::string> names;
  try {
    Reader(bytes, "zip archive").list(names);
  } catch (const CheckpointError&) {  // the names before the damage
  }
  return names;
}

}  // namespace sam_rlx
