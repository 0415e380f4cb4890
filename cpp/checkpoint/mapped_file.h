#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace sam_rlx {

// A path as UTF-8 and back. On Windows path::string() and the constructor from std::string are of
// the code page, which lacks most names.
std::string utf8_of(const std::filesystem::path& path);
std::filesystem::path path_of(std::string_view utf8);

// A file mapped into memory for reading. The file must not shrink while it is mapped.
//
// Raises std::filesystem::filesystem_error when the file cannot be opened or is a directory, and
// CheckpointError when it is not a regular file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  bool contains(const std::byte* pointer) const {
    return pointer >= data_ && pointer < data_ + size_;
  }
  // Lets the pages of a range leave the resident set. They come back when they are read again.
  void release(std::span<const std::byte> range) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sam_rlx
