#pragma once

#include <cstddef>
#include <cstdint>

namespace sam_rlx {

// Limits of an image: of its sides, and of their product.
constexpr std::int64_t kMaxImageSide = std::int64_t{1} << 24;
constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 30;  // a float32 mask takes 4 GiB

// An RGB image of bytes that somebody else owns: pixels are 3 contiguous bytes, pixels of a row
// are contiguous, rows are row_stride bytes apart (any sign).
struct ImageView {
  const std::uint8_t* data = nullptr;
  std::int64_t height = 0, width = 0;
  std::int64_t row_stride = 0;

  const std::uint8_t* row(std::int64_t y) const { return data + y * row_stride; }
  // The part with rows [y0, y1) and columns [x0, x1).
  ImageView crop(std::int64_t x0, std::int64_t y0, std::int64_t x1, std::int64_t y1) const {
    return {row(y0) + 3 * x0, y1 - y0, x1 - x0, row_stride};
  }
};

// How an image becomes as large as the network's square input. Upstream's loaders differ.
enum class Resize {
  kFloat,     // as the family's image predictor does: float; for SAM 3, then rounded to bytes
  kInteger,   // SAM 3: the same in integers, as torchvision on CPUs
  kBicubic,   // on bytes, Pillow's bicubic filter
  kBilinear,  // on bytes, Pillow's bilinear filter
  kCubic,     // bicubic without antialias, rounded to bytes, as OpenCV
};

}  // namespace sam_rlx
