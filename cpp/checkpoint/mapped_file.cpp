#include "checkpoint/mapped_file.h"

#include <system_error>

#include "checkpoint/text.h"
#include "core/error.h"
#include "core/tensor.h"

#if defined(_WIN32)
#include <fstream>
#include <memory>
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace sam_rlx {
namespace {

[[noreturn]] void raise_os_error(const std::filesystem::path& path, int code) {
  throw std::filesystem::filesystem_error("cannot read", path,
                                          std::error_code(code, std::generic_category()));
}

}  // namespace

std::string utf8_of(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

std::filesystem::path path_of(std::string_view utf8) {
  return std::u8string(utf8.begin(), utf8.end());
}

#if defined(_WIN32)

// No mapping here: the file is read into memory.
MappedFile::MappedFile(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    raise_os_error(path, static_cast<int>(std::errc::is_a_directory));
  }
  size_ = static_cast<std::size_t>(std::filesystem::file_size(path));
  auto block = std::make_unique<std::byte[]>(size_);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(block.get()), static_cast<std::streamsize>(size_))) {
    raise_os_error(path, static_cast<int>(std::errc::io_error));
  }
  data_ = block.release();
}

MappedFile::~MappedFile() { delete[] data_; }

#else

namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      // Without O_NONBLOCK a named pipe would block here.
      : value_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (value_ < 0) raise_os_error(path, errno);
  }
  ~Descriptor() { close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor descriptor(path);
  struct stat status{};
  if (fstat(descriptor.get(), &status) != 0) raise_os_error(path, errno);
  if (S_ISDIR(status.st_mode)) raise_os_error(path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    fail<CheckpointError>(printable(utf8_of(path)), "a regular file", "another kind of file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* const pointer = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (pointer == MAP_FAILED) raise_os_error(path, errno);
  data_ = static_cast<const std::byte*>(pointer);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

#endif

void MappedFile::release(std::span<const std::byte> range) const noexcept {
  if (!range.empty() && contains(range.data())) release_pages(range.data(), range.size());
}

}  // namespace sam_rlx
