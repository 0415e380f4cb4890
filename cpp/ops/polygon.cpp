#include "ops/polygon.h"

#include <array>

#include "ops/components.h"

namespace sam_rlx {
namespace {

struct Mask {
  const std::uint8_t* pixels;
  std::int64_t height, width;

  bool at(std::int64_t x, std::int64_t y) const {
    return x >= 0 && y >= 0 && x < width && y < height && pixels[y * width + x] != 0;
  }
};

// Clockwise: east, south, west, north.
constexpr std::array<std::int64_t, 4> kStepX{1, 0, -1, 0};
constexpr std::array<std::int64_t, 4> kStepY{0, 1, 0, -1};
// From a corner (x, y), the pixel that lies ahead at the left of each direction. The one at the
// right of a direction is the one at the left of the next.
constexpr std::array<std::int64_t, 4> kLeftX{0, 0, -1, -1};
constexpr std::array<std::int64_t, 4> kLeftY{-1, 0, 0, -1};

// Follows a border with the mask at the right hand, from the upper left corner of a pixel whose
// upper edge is part of it.
Polygon follow_border(const Mask& mask, std::int64_t start_x, std::int64_t start_y) {
  Polygon corners;
  std::int64_t x = start_x, y = start_y;
  std::size_t direction = 0;
  do {
    corners.push_back(static_cast<std::int32_t>(x));
    corners.push_back(static_cast<std::int32_t>(y));
    for (;;) {
      x += kStepX[direction];
      y += kStepY[direction];
      const std::size_t right = (direction + 1) % 4, left = (direction + 3) % 4;
      // Left first: pixels that share only a corner belong together.
      if (mask.at(x + kLeftX[direction], y + kLeftY[direction])) {
        direction = left;
        break;
      }
      if (!mask.at(x + kLeftX[right], y + kLeftY[right])) {
        direction = right;
        break;
      }
    }
  } while (x != start_x || y != start_y || direction != 0);
  return corners;
}

}  // namespace

std::vector<Polygon> mask_to_polygons(const std::uint8_t* mask, std::int64_t height,
                                      std::int64_t width) {
  const Components components = find_components(encode_rle(mask, height, width, width), true);
  std::vector<char> seen(components.areas.size(), 0);
  std::vector<Polygon> polygons;
  for (const Segment& segment : components.segments) {
    // The first segment of a component is in its leftmost column, so its upper edge is outside.
    char& done = seen[static_cast<std::size_t>(segment.label)];
    if (done == 0) polygons.push_back(follow_border({mask, height, width}, segment.x, segment.y0));
    done = 1;
  }
  return polygons;
}

}  // namespace sam_rlx
