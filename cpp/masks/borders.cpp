#include "masks/borders.h"

#include <tuple>

namespace sam_rlx {

Borders::Borders(const std::vector<Segment>& segments, Connectivity connectivity)
    : segments_(segments), reach_(connectivity == Connectivity::kEight ? 1 : 0) {
  const auto count = static_cast<std::int32_t>(segments.size());
  right_.assign(segments.size(), kNoSegment);
  left_.assign(segments.size(), kNoSegment);
  std::int32_t ahead = 0, behind = kNoSegment;
  for (std::int32_t i = 0; i < count; ++i) {
    const Segment& segment = at(i);
    const std::tuple after{segment.x + 1, segment.y0 - reach_},
        before{segment.x - 1, segment.y1 + reach_};
    while (ahead < count && std::tie(at(ahead).x, at(ahead).y1) < after) ++ahead;
    if (ahead < count && at(ahead).x == segment.x + 1) right_[index(i)] = ahead;
    while (std::tie(at(behind + 1).x, at(behind + 1).y0) <= before) ++behind;
    if (behind >= 0 && at(behind).x == segment.x - 1) left_[index(i)] = behind;
  }
}

Corner Borders::begin(Edge edge) const {
  const Segment& segment = at(edge.segment);
  return edge.is_upper ? Corner{segment.x, segment.y0} : Corner{segment.x + 1, segment.y1 + 1};
}

Corner Borders::end(Edge edge) const {
  const Segment& segment = at(edge.segment);
  return edge.is_upper ? Corner{segment.x + 1, segment.y0} : Corner{segment.x, segment.y1 + 1};
}

NextEdge Borders::next(Edge edge) const {
  return edge.is_upper ? after_upper(edge) : after_lower(edge);
}

// The neighbours in the same column, or none.
std::int32_t Borders::above(std::int32_t i) const {
  return i > 0 && at(i - 1).x == at(i).x ? i - 1 : kNoSegment;
}

std::int32_t Borders::below(std::int32_t i) const {
  const bool is_last = index(i) + 1 == segments_.size();
  return !is_last && at(i + 1).x == at(i).x ? i + 1 : kNoSegment;
}

NextEdge Borders::after_upper(Edge edge) const {
  const std::int32_t other = right_[index(edge.segment)];
  const std::int32_t y = at(edge.segment).y0, last = at(edge.segment).y1;
  if (other != kNoSegment && at(other).y0 == y) return {{other, true}, false};
  if (other != kNoSegment && at(other).y0 < y) {
    // Up along the other segment, as far as this column is empty.
    const std::int32_t stop = above(edge.segment);
    if (stop != kNoSegment && at(stop).y1 + reach_ >= at(other).y0) return {{stop, false}, true};
    return {{other, true}, true};
  }
  // Down along this segment, as far as the next column is empty.
  if (other != kNoSegment && at(other).y0 <= last + reach_) return {{other, true}, true};
  return {{edge.segment, false}, true};
}

NextEdge Borders::after_lower(Edge edge) const {
  const std::int32_t other = left_[index(edge.segment)];
  const std::int32_t last = at(edge.segment).y1, top = at(edge.segment).y0;
  if (other != kNoSegment && at(other).y1 == last) return {{other, false}, false};
  if (other != kNoSegment && at(other).y1 > last) {
    // Down along the other segment, as far as this column is empty.
    const std::int32_t stop = below(edge.segment);
    if (stop != kNoSegment && at(stop).y0 <= at(other).y1 + reach_) return {{stop, true}, true};
    return {{other, false}, true};
  }
  // Up along this segment, as far as the column before is empty.
  if (other != kNoSegment && at(other).y1 + reach_ >= top) return {{other, false}, true};
  return {{edge.segment, true}, true};
}

}  // namespace sam_rlx
