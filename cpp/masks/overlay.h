#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/image.h"
#include "masks/rle.h"

namespace sam_rlx {

// Red, green, blue: 0 to 255.
using Rgb = std::array<float, 3>;

// A mask (height, width) of bytes, 0 or not, or of runs; and the colour of its object.
struct PaintedMask {
  const std::uint8_t* pixels = nullptr;
  const Rle* runs = nullptr;  // of which the rows of one band are decoded at a time
  Rgb color{};
};

// Corners in pixels.
struct PaintedBox {
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  Rgb color{};
};

struct PaintedPoint {
  double x = 0, y = 0;
  Rgb color{};
};

// What is drawn over an image, from below to above: masks, boxes, points, each in their order.
struct Overlay {
  std::vector<PaintedMask> masks;
  std::vector<PaintedBox> boxes;
  std::vector<PaintedPoint> points;
  float opacity = 0.5F;  // of fillings; outlines are opaque
  double line = 2.0;     // width of outlines in pixels
};

// Blends in float32, a band of rows at a time, and rounds once: out (height, width, 3) bytes.
void draw_overlay(const ImageView& image, const Overlay& overlay, std::uint8_t* out);

}  // namespace sam_rlx
