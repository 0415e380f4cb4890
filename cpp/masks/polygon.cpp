#include "masks/polygon.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "masks/components.h"

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

constexpr std::size_t kEast = 0, kWest = 2;

// A corner of pixels, and the direction of the edge that comes next.
struct Step {
  std::int64_t x = 0, y = 0;
  std::size_t direction = kEast;

  bool operator==(const Step&) const = default;
};

// Goes along one edge of a border with the mask at the right hand, and turns. Left first: pixels
// that share only a corner belong together.
Step next_step(const Mask& mask, Step step) {
  step.x += kStepX[step.direction];
  step.y += kStepY[step.direction];
  const std::size_t right = (step.direction + 1) % 4, left = (step.direction + 3) % 4;
  if (mask.at(step.x + kLeftX[step.direction], step.y + kLeftY[step.direction])) {
    step.direction = left;
  } else if (!mask.at(step.x + kLeftX[right], step.y + kLeftY[right])) {
    step.direction = right;
  }
  return step;
}

// Holes by the pixel whose upper edge the line from the hole ends at: the first step of each.
using Holes = std::unordered_map<std::int64_t, Step>;

// Marks the lower edges that a border has, by their pixels.
void mark_lower_edges(const Mask& mask, Step start, std::vector<char>& seen) {
  Step step = start;
  do {
    if (step.direction == kWest) {
      seen[static_cast<std::size_t>((step.y - 1) * mask.width + step.x - 1)] = 1;
    }
    step = next_step(mask, step);
  } while (step != start);
}

// The first lower edge of a hole by rows is part of its upper border. The line goes up from its
// right end, so that it ends at a border that reaches higher: no hole is cut open towards itself.
Holes find_holes(const Mask& mask, const std::vector<Step>& outer) {
  std::vector<char> seen(static_cast<std::size_t>(mask.height * mask.width), 0);
  for (const Step& start : outer) mark_lower_edges(mask, start, seen);
  Holes holes;
  for (std::int64_t y = 0; y < mask.height; ++y) {
    for (std::int64_t x = 0; x < mask.width; ++x) {
      const bool known = seen[static_cast<std::size_t>(y * mask.width + x)] != 0;
      if (known || !mask.at(x, y) || mask.at(x, y + 1)) continue;
      const Step start{x + 1, y + 1, kWest};
      mark_lower_edges(mask, start, seen);
      std::int64_t top = y;
      while (mask.at(x, top - 1)) --top;
      holes.emplace(top * mask.width + x, start);
    }
  }
  return holes;
}

void append(Polygon& corners, const Step& step) {
  const auto x = static_cast<std::int32_t>(step.x), y = static_cast<std::int32_t>(step.y);
  const std::size_t size = corners.size();
  if (size > 0 && corners[size - 2] == x && corners[size - 1] == y) return;
  corners.push_back(x);
  corners.push_back(y);
}

// The corners of a border and of the holes that are cut open to it, from a corner of the border.
Polygon follow_border(const Mask& mask, const Step& outer, const Holes& holes) {
  struct Walk {
    Step start, step;
  };
  Polygon corners;
  std::vector<Walk> walks{{outer, outer}};
  append(corners, outer);
  while (!walks.empty()) {
    Walk& walk = walks.back();
    const Step before = walk.step;
    walk.step = next_step(mask, before);
    const bool closed = walk.step == walk.start;
    const auto hole =
        before.direction == kEast ? holes.find(before.y * mask.width + before.x) : holes.end();
    if (hole != holes.end()) append(corners, walk.step);
    if (closed) {
      // The outer line closes by itself; that of a hole goes back to where it came from.
      if (walks.size() > 1) append(corners, walk.step);
      walks.pop_back();
      if (!walks.empty()) append(corners, walks.back().step);
    } else if (walk.step.direction != before.direction) {
      append(corners, walk.step);
    }
    if (hole != holes.end()) {
      walks.push_back({hole->second, hole->second});
      append(corners, hole->second);
    }
  }
  return corners;
}

}  // namespace

std::vector<Polygon> mask_to_polygons(const std::uint8_t* mask, std::int64_t height,
                                      std::int64_t width, bool holes) {
  const Mask pixels{mask, height, width};
  const Components components = find_components(encode_rle(mask, height, width, width), true);
  std::vector<char> seen(components.areas.size(), 0);
  std::vector<Step> outer;
  for (const Segment& segment : components.segments) {
    // The first segment of a component is in its leftmost column, so its upper edge is outside.
    char& done = seen[static_cast<std::size_t>(segment.label)];
    if (done == 0) outer.push_back({segment.x, segment.y0, kEast});
    done = 1;
  }
  const Holes cut = holes ? find_holes(pixels, outer) : Holes{};
  std::vector<Polygon> polygons;
  for (const Step& start : outer) polygons.push_back(follow_border(pixels, start, cut));
  return polygons;
}

}  // namespace sam_rlx
