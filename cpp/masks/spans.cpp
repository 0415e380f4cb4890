#include "masks/spans.h"

#include <algorithm>

#include "masks/components.h"

namespace sam_rlx {
namespace {

// Adds rows [y0, y1) of column x behind the others, or to the last one if they touch.
void append_span(Spans& spans, std::int64_t x, std::int64_t y0, std::int64_t y1) {
  if (y0 >= y1) return;
  if (!spans.empty() && spans.back().x == x && spans.back().y1 >= y0) {
    spans.back().y1 = std::max(spans.back().y1, static_cast<std::int32_t>(y1));
    return;
  }
  spans.push_back(
      {static_cast<std::int32_t>(x), static_cast<std::int32_t>(y0), static_cast<std::int32_t>(y1)});
}

bool comes_first(const ColumnSpan& a, const ColumnSpan& b) {
  return a.x != b.x ? a.x < b.x : a.y0 < b.y0;
}

}  // namespace

PixelRegion common_region(const PixelRegion& a, const PixelRegion& b) {
  return {std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1), std::min(a.y1, b.y1)};
}

Spans spans_of(const Rle& mask, bool value) {
  Spans spans;
  std::int64_t position = 0;
  for (std::size_t i = 0; i < mask.counts.size(); ++i) {
    const std::int64_t end = position + mask.counts[i];
    if ((i % 2 != 0) != value) position = end;
    while (position < end) {
      const std::int64_t x = position / mask.height, y = position % mask.height;
      const std::int64_t rows = std::min(mask.height - y, end - position);
      append_span(spans, x, y, y + rows);
      position += rows;
    }
  }
  return spans;
}

Spans spans_in(const Rle& mask, const Placement& placement, std::int64_t height,
               std::int64_t width) {
  const Spans found = spans_of(mask);
  const std::int64_t factor = placement.factor;
  Spans spans;
  for (auto first = found.begin(); first != found.end();) {
    const auto last =
        std::find_if(first, found.end(), [&](const ColumnSpan& s) { return s.x != first->x; });
    const std::int64_t begin = std::max<std::int64_t>(0, placement.x0 + first->x * factor);
    const std::int64_t end = std::min(width, placement.x0 + (first->x + 1) * factor);
    for (std::int64_t x = begin; x < end; ++x) {
      for (auto span = first; span != last; ++span) {
        append_span(spans, x, std::max<std::int64_t>(0, placement.y0 + span->y0 * factor),
                    std::min(height, placement.y0 + span->y1 * factor));
      }
    }
    first = last;
  }
  return spans;
}

Rle rle_of(const Spans& spans, std::int64_t height, std::int64_t width) {
  RunWriter runs;
  std::int64_t position = 0;
  for (const ColumnSpan& span : spans) {
    const std::int64_t start = span.x * height + span.y0;
    runs.add(false, start - position);
    runs.add(true, span.y1 - span.y0);
    position = start + span.y1 - span.y0;
  }
  runs.add(false, height * width - position);
  return {height, width, runs.finish()};
}

std::int64_t span_area(const Spans& spans) {
  std::int64_t area = 0;
  for (const ColumnSpan& span : spans) area += span.y1 - span.y0;
  return area;
}

std::int64_t span_area(const Spans& spans, const PixelRegion& region) {
  std::int64_t area = 0;
  for (const ColumnSpan& span : spans) {
    if (span.x < region.x0 || span.x >= region.x1) continue;
    const std::int64_t y0 = std::max<std::int64_t>(span.y0, region.y0);
    const std::int64_t y1 = std::min<std::int64_t>(span.y1, region.y1);
    area += std::max<std::int64_t>(0, y1 - y0);
  }
  return area;
}

PixelRegion span_region(const Spans& spans) {
  if (spans.empty()) return {};
  PixelRegion region{spans.front().x, spans.front().y0, spans.back().x + std::int64_t{1},
                     spans.front().y1};
  for (const ColumnSpan& span : spans) {
    region.y0 = std::min<std::int64_t>(region.y0, span.y0);
    region.y1 = std::max<std::int64_t>(region.y1, span.y1);
  }
  return region;
}

std::int64_t shared_area(const Spans& a, const Spans& b) {
  std::int64_t area = 0;
  auto i = a.begin(), j = b.begin();
  while (i != a.end() && j != b.end()) {
    if (i->x != j->x) {
      ++(i->x < j->x ? i : j);
      continue;
    }
    area += std::max(0, std::min(i->y1, j->y1) - std::max(i->y0, j->y0));
    ++(i->y1 < j->y1 ? i : j);
  }
  return area;
}

Spans united(const Spans& a, const Spans& b) {
  Spans spans;
  auto i = a.begin(), j = b.begin();
  while (i != a.end() || j != b.end()) {
    const bool first = j == b.end() || (i != a.end() && comes_first(*i, *j));
    const ColumnSpan& next = first ? *i++ : *j++;
    append_span(spans, next.x, next.y0, next.y1);
  }
  return spans;
}

Spans without_holes(const Spans& spans) {
  if (spans.empty()) return {};
  // The mask alone, with one pixel of the outside around it.
  const PixelRegion box = span_region(spans);
  Spans inner = spans;
  for (ColumnSpan& span : inner) {
    span = {static_cast<std::int32_t>(span.x - box.x0 + 1),
            static_cast<std::int32_t>(span.y0 - box.y0 + 1),
            static_cast<std::int32_t>(span.y1 - box.y0 + 1)};
  }
  const Components zeros =
      find_components(rle_of(inner, box.y1 - box.y0 + 2, box.x1 - box.x0 + 2), false);
  Spans holes;
  for (const Segment& segment : zeros.segments) {
    if (segment.label == 0) continue;  // it has the first pixel, which is outside
    append_span(holes, segment.x + box.x0 - 1, segment.y0 + box.y0 - 1, segment.y1 + box.y0);
  }
  return united(spans, holes);
}

}  // namespace sam_rlx
