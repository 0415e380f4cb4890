#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "masks/components.h"

namespace sam_rlx {

constexpr std::int32_t kNoSegment = -1;

// A horizontal edge of a border: the upper edge of a segment, which is followed to the right, or
// its lower edge, which is followed to the left. The mask is at the right hand.
struct Edge {
  std::int32_t segment = kNoSegment;
  bool is_upper = true;

  bool operator==(const Edge&) const = default;
};

// Where lines along the edges of pixels meet: pixel (x, y) covers x to x + 1 and y to y + 1.
struct Corner {
  std::int32_t x = 0, y = 0;

  bool operator==(const Corner&) const = default;
};

// The next horizontal edge of a border, and whether a vertical line leads to it.
struct NextEdge {
  Edge edge;
  bool turns = false;
};

// Goes along the borders of the segments of a mask. Segments are vertical: what lies between two
// horizontal edges of a border is at most one vertical line. The segments must outlive it.
class Borders {
 public:
  Borders(const std::vector<Segment>& segments, Connectivity connectivity);

  Corner begin(Edge edge) const;
  Corner end(Edge edge) const;
  // Where two borders meet in a corner, it turns left if the pixels that share only the corner
  // belong together, else right.
  NextEdge next(Edge edge) const;

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  const Segment& at(std::int32_t i) const { return segments_[index(i)]; }
  std::int32_t above(std::int32_t i) const;
  std::int32_t below(std::int32_t i) const;
  NextEdge after_upper(Edge edge) const;
  NextEdge after_lower(Edge edge) const;

  const std::vector<Segment>& segments_;
  std::int32_t reach_;  // how many rows apart segments may be to belong together
  // By segment: the first one of the next column that ends in the row above it (with reach 0, in
  // its first row) or lower, and the last one of the column before that begins in the row below it
  // (in its last row) or higher.
  std::vector<std::int32_t> right_, left_;
};

}  // namespace sam_rlx
