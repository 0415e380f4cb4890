#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace sam_rlx {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are little-endian and are read in place");

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads little-endian numbers and byte ranges one after the other and never past the end.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string where, std::size_t position = 0)
      : bytes_(bytes), where_(std::move(where)), position_(position) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  const std::string& where() const { return where_; }

  std::span<const std::byte> take_bytes(std::uint64_t count) {
    if (position_ > bytes_.size() || count > remaining()) {
      fail<CheckpointError>(
          where_ + ", byte " + std::to_string(position_), std::to_string(count) + " more bytes",
          position_ > bytes_.size() ? "the end of the data" : std::to_string(remaining()));
    }
    const auto range = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += range.size();
    return range;
  }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string where_;
  std::size_t position_;
};

}  // namespace sam_rlx
