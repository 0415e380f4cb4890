#include "masks/polygon.h"

#include <tuple>

#include "masks/borders.h"
#include "masks/components.h"

namespace sam_rlx {
namespace {

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
  const Borders borders(segments, Connectivity::kEight);
  const Holes cut = holes ? find_holes(borders, segments, outer) : Holes{};
  std::vector<Polygon> polygons;
  for (const Edge& start : outer) polygons.push_back(follow_border(borders, start, cut));
  return polygons;
}

}  // namespace sam_rlx
