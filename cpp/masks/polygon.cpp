#include "masks/polygon.h"

#include <tuple>

#include "masks/components.h"

namespace sam_rlx {
namespace {

constexpr std::int32_t kNoSegment = -1;

// A horizontal edge of a border: the upper edge of a segment, which is followed to the right, or
// its lower edge, which is followed to the left. The mask is at the right hand.
struct Edge {
  std::int32_t segment = kNoSegment;
  bool is_upper = true;

  bool operator==(const Edge&) const = default;
};

struct Corner {
  std::int32_t x = 0, y = 0;
};

// The next horizontal edge of a border, and whether a vertical line leads to it.
struct NextEdge {
  Edge edge;
  bool turns = false;
};

// Goes along the borders of the segments of a mask. Segments are vertical: what lies between two
// horizontal edges of a border is at most one vertical line.
class Borders {
 public:
  explicit Borders(const std::vector<Segment>& segments) : segments_(segments) {
    const auto count = static_cast<std::int32_t>(segments.size());
    right_.assign(segments.size(), kNoSegment);
    left_.assign(segments.size(), kNoSegment);
    std::int32_t ahead = 0, behind = kNoSegment;
    for (std::int32_t i = 0; i < count; ++i) {
      const Segment& segment = at(i);
      const std::tuple after{segment.x + 1, segment.y0 - 1}, before{segment.x - 1, segment.y1 + 1};
      while (ahead < count && std::tie(at(ahead).x, at(ahead).y1) < after) ++ahead;
      if (ahead < count && at(ahead).x == segment.x + 1) right_[index(i)] = ahead;
      while (std::tie(at(behind + 1).x, at(behind + 1).y0) <= before) ++behind;
      if (behind >= 0 && at(behind).x == segment.x - 1) left_[index(i)] = behind;
    }
  }

  Corner begin(Edge edge) const {
    const Segment& segment = at(edge.segment);
    return edge.is_upper ? Corner{segment.x, segment.y0} : Corner{segment.x + 1, segment.y1 + 1};
  }
  Corner end(Edge edge) const {
    const Segment& segment = at(edge.segment);
    return edge.is_upper ? Corner{segment.x + 1, segment.y0} : Corner{segment.x, segment.y1 + 1};
  }
  // Pixels that share only a corner belong together: where two borders meet, it turns left.
  NextEdge next(Edge edge) const { return edge.is_upper ? after_upper(edge) : after_lower(edge); }

 private:
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  const Segment& at(std::int32_t i) const { return segments_[index(i)]; }

  // The neighbours in the same column, or none.
  std::int32_t above(std::int32_t i) const {
    return i > 0 && at(i - 1).x == at(i).x ? i - 1 : kNoSegment;
  }
  std::int32_t below(std::int32_t i) const {
    const bool is_last = index(i) + 1 == segments_.size();
    return !is_last && at(i + 1).x == at(i).x ? i + 1 : kNoSegment;
  }

  NextEdge after_upper(Edge edge) const {
    const std::int32_t other = right_[index(edge.segment)];
    const std::int32_t y = at(edge.segment).y0, bottom = at(edge.segment).y1 + 1;
    if (other != kNoSegment && at(other).y0 == y) return {{other, true}, false};
    if (other != kNoSegment && at(other).y0 < y) {
      // Up along the other segment, as far as this column is empty.
      const std::int32_t stop = above(edge.segment);
      if (stop != kNoSegment && at(stop).y1 + 1 >= at(other).y0) return {{stop, false}, true};
      return {{other, true}, true};
    }
    // Down along this segment, as far as the next column is empty.
    if (other != kNoSegment && at(other).y0 <= bottom) return {{other, true}, true};
    return {{edge.segment, false}, true};
  }

  NextEdge after_lower(Edge edge) const {
    const std::int32_t other = left_[index(edge.segment)];
    const std::int32_t y = at(edge.segment).y1 + 1, top = at(edge.segment).y0;
    if (other != kNoSegment && at(other).y1 + 1 == y) return {{other, false}, false};
    if (other != kNoSegment && at(other).y1 >= y) {
      // Down along the other segment, as far as this column is empty.
      const std::int32_t stop = below(edge.segment);
      if (stop != kNoSegment && at(stop).y0 <= at(other).y1 + 1) return {{stop, true}, true};
      return {{other, false}, true};
    }
    // Up along this segment, as far as the column before is empty.
    if (other != kNoSegment && at(other).y1 + 1 >= top) return {{other, false}, true};
    return {{edge.segment, true}, true};
  }

  const std::vector<Segment>& segments_;
  // By segment: the first one of the next column that ends in the row above it or lower, and the
  // last one of the column before that begins in the row below it or higher.
  std::vector<std::int32_t> right_, left_;
};

// By segment: the first edge of the hole that the line from its upper edge leads to.
using Holes = std::vector<Edge>;

// The first lower edge of a hole by rows is part of its upper border. The line goes up from its
// right end, so that it ends at a border that reaches higher: no hole is cut open towards itself.
Holes find_holes(const Borders& borders, const std::vector<Segment>& segments,
                 const std::vector<Edge>& outer) {
  std::vector<char> seen(segments.size(), 0);
  const auto follow = [&](Edge start, const auto& visit) {
    Edge edge = start;
    do {
      if (!edge.is_upper) visit(edge.segment);
      edge = borders.next(edge).edge;
    } while (edge != start);
  };
  const auto mark = [&](std::int32_t segment) { seen[static_cast<std::size_t>(segment)] = 1; };
  for (const Edge& start : outer) follow(start, mark);
  Holes holes(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (seen[i] != 0) continue;
    auto first = static_cast<std::int32_t>(i);
    follow({first, false}, [&](std::int32_t segment) {
      mark(segment);
      const Segment &a = segments[static_cast<std::size_t>(segment)],
                    &b = segments[static_cast<std::size_t>(first)];
      if (std::tie(a.y1, a.x) < std::tie(b.y1, b.x)) first = segment;
    });
    holes[static_cast<std::size_t>(first)] = {first, false};
  }
  return holes;
}

void append(Polygon& corners, Corner corner) {
  const std::size_t size = corners.size();
  if (size > 0 && corners[size - 2] == corner.x && corners[size - 1] == corner.y) return;
  corners.push_back(corner.x);
  corners.push_back(corner.y);
}

// The corners of a border and of the holes that are cut open to it, from a corner of the border.
Polygon follow_border(const Borders& borders, Edge outer, const Holes& holes) {
  struct Walk {
    Edge start, edge;
  };
  Polygon corners;
  std::vector<Walk> walks{{outer, outer}};
  append(corners, borders.begin(outer));
  bool is_back = false;  // from a hole, at the end of the edge
  while (!walks.empty()) {
    Walk& walk = walks.back();
    const NextEdge next = borders.next(walk.edge);
    if (!is_back) {
      const Edge hole = walk.edge.is_upper && !holes.empty()
                            ? holes[static_cast<std::size_t>(walk.edge.segment)]
                            : Edge{};
      const bool is_cut = hole.segment != kNoSegment;
      if (next.turns || is_cut) append(corners, borders.end(walk.edge));
      if (is_cut) {
        walks.push_back({hole, hole});
        append(corners, borders.begin(hole));
        continue;
      }
    }
    is_back = false;
    if (next.edge != walk.start) {
      if (next.turns) append(corners, borders.begin(next.edge));
      walk.edge = next.edge;
      continue;
    }
    // The outer line closes by itself; that of a hole goes back to where it came from.
    if (walks.size() > 1) append(corners, borders.begin(walk.start));
    walks.pop_back();
    if (!walks.empty()) append(corners, borders.end(walks.back().edge));
    is_back = true;
  }
  return corners;
}

}  // namespace

std::vector<Polygon> mask_to_polygons(const Rle& mask, bool holes) {
  const Components components = find_components(mask, true);
  const std::vector<Segment>& segments = components.segments;
  std::vector<char> seen(components.areas.size(), 0);
  std::vector<Edge> outer;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    // The first segment of a component is in its leftmost column, so its upper edge is outside.
    char& done = seen[static_cast<std::size_t>(segments[i].label)];
    if (done == 0) outer.push_back({static_cast<std::int32_t>(i), true});
    done = 1;
  }
  const Borders borders(segments);
  const Holes cut = holes ? find_holes(borders, segments, outer) : Holes{};
  std::vector<Polygon> polygons;
  for (const Edge& start : outer) polygons.push_back(follow_border(borders, start, cut));
  return polygons;
}

}  // namespace sam_rlx
