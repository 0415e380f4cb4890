#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "predictors/image/image_transform.h"

namespace sam_rlx {

// The size of the current image, or none. Any thread may read it while a call changes it.
class PublishedSize {
 public:
  // The size passes check_size.
  void set(std::optional<Size> size) noexcept {
    bits_ = size ? static_cast<std::uint64_t>(size->height) << 32 |
                       static_cast<std::uint64_t>(size->width)
                 : 0;
  }
  std::optional<Size> get() const noexcept {
    const std::uint64_t bits = bits_;
    if (bits == 0) return std::nullopt;
    return Size{static_cast<std::int64_t>(bits >> 32),
                static_cast<std::int64_t>(bits & 0xFFFFFFFFU)};
  }

 private:
  std::atomic<std::uint64_t> bits_ = 0;  // height and width, 32 bits each; sides are at least 1
};

}  // namespace sam_rlx
