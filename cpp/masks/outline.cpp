#include "masks/outline.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace sam_rlx {
namespace {

Ring follow(const Borders& borders, Edge start, std::vector<char>& seen) {
  Ring corners;
  Edge edge = start;
  do {
    if (!edge.is_upper) seen[static_cast<std::size_t>(edge.segment)] = 1;
    const NextEdge next = borders.next(edge);
    if (next.turns) {
      corners.push_back(borders.end(edge));
      corners.push_back(borders.begin(next.edge));
    }
    edge = next.edge;
  } while (edge != start);
  return corners;
}

// Cuts a border wherever it comes to a corner for the second time.
std::vector<Ring> cut(const Ring& border) {
  std::vector<Ring> rings;
  Ring open;
  std::unordered_map<std::uint64_t, std::size_t> position;
  const auto key = [](Corner corner) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(corner.x)) << 32U) |
           static_cast<std::uint32_t>(corner.y);
  };
  for (const Corner& corner : border) {
    const auto [known, is_new] = position.try_emplace(key(corner), open.size());
    if (is_new) {
      open.push_back(corner);
      continue;
    }
    const std::size_t first = known->second;
    for (std::size_t i = first + 1; i < open.size(); ++i) position.erase(key(open[i]));
    rings.emplace_back(open.begin() + static_cast<std::ptrdiff_t>(first), open.end());
    open.resize(first + 1);
  }
  rings.push_back(std::move(open));
  return rings;
}

bool is_clockwise(const Ring& ring) {
  std::int64_t twice = 0;
  Corner last = ring.back();
  for (const Corner& corner : ring) {
    twice += std::int64_t{last.x} * corner.y - std::int64_t{corner.x} * last.y;
    last = corner;
  }
  return twice > 0;
}

}  // namespace

std::vector<Outline> mask_to_outlines(const Rle& mask) {
  const Components components = find_components(mask, true, Connectivity::kFour);
  const std::vector<Segment>& segments = components.segments;
  std::vector<std::size_t> number(components.areas.size(), components.areas.size());
  std::size_t count = 0;
  for (const Segment& segment : segments) {
    std::size_t& own = number[static_cast<std::size_t>(segment.label)];
    if (own == number.size()) own = count++;
  }
  const Borders borders(segments, Connectivity::kFour);
  std::vector<Outline> outlines(count);
  std::vector<char> seen(segments.size(), 0);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (seen[i] != 0) continue;
    Outline& outline = outlines[number[static_cast<std::size_t>(segments[i].label)]];
    for (Ring& ring : cut(follow(borders, {static_cast<std::int32_t>(i), false}, seen))) {
      outline.push_back(std::move(ring));
      if (is_clockwise(outline.back())) std::swap(outline.front(), outline.back());
    }
  }
  return outlines;
}

}  // namespace sam_rlx
