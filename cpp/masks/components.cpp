#include "masks/components.h"

#include <algorithm>
#include <limits>

#include "masks/disjoint_sets.h"
#include "masks/spans.h"

namespace sam_rlx {
namespace {

std::vector<Segment> find_segments(const Rle& mask, bool value) {
  std::vector<Segment> segments;
  for (const ColumnSpan& span : spans_of(mask, value)) {
    segments.push_back({span.x, span.y0, span.y1 - 1});
  }
  return segments;
}

// Joins what touches in neighbouring columns: by `reach` 1 also at a corner, by 0 not.
DisjointSets join_segments(const std::vector<Segment>& segments, std::int32_t reach) {
  DisjointSets sets(segments.size());
  std::size_t left = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    // Segments that end above this one cannot touch those below it either.
    while (segments[left].x < segment.x - 1 ||
           (segments[left].x == segment.x - 1 && segments[left].y1 + reach < segment.y0)) {
      ++left;
    }
    for (std::size_t j = left;
         segments[j].x == segment.x - 1 && segments[j].y0 <= segment.y1 + reach; ++j) {
      sets.join(i, j);
    }
  }
  return sets;
}

// Gives the roots labels in the order of `block`, the first block of each.
std::vector<std::int32_t> number_roots(const std::vector<std::size_t>& roots,
                                       const std::vector<std::int64_t>& block) {
  std::vector<std::size_t> order = roots;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return block[a] < block[b]; });
  std::vector<std::int32_t> labels(block.size());
  for (std::size_t i = 0; i < order.size(); ++i) labels[order[i]] = static_cast<std::int32_t>(i);
  return labels;
}

}  // namespace

Components find_components(const Rle& mask, bool value, Connectivity connectivity) {
  Components result{find_segments(mask, value), {}};
  std::vector<Segment>& segments = result.segments;
  DisjointSets sets = join_segments(segments, connectivity == Connectivity::kEight ? 1 : 0);
  const std::int64_t blocks_a_row = (mask.width + 1) / 2;
  std::vector<std::int64_t> block(segments.size(), std::numeric_limits<std::int64_t>::max());
  std::vector<std::size_t> roots;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t root = sets.root(i);
    if (root == i) roots.push_back(i);
    const std::int64_t first = segments[i].y0 / 2 * blocks_a_row + segments[i].x / 2;
    block[root] = std::min(block[root], first);
  }
  const std::vector<std::int32_t> labels = number_roots(roots, block);
  result.areas.assign(roots.size(), 0);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    segments[i].label = labels[sets.root(i)];
    result.areas[static_cast<std::size_t>(segments[i].label)] +=
        segments[i].y1 - segments[i].y0 + 1;
  }
  return result;
}

Spans component_spans(const Components& parts, const std::vector<char>& wanted) {
  Spans spans;
  for (const Segment& segment : parts.segments) {
    if (wanted[static_cast<std::size_t>(segment.label)] == 0) continue;
    spans.push_back({segment.x, segment.y0, segment.y1 + 1});
  }
  return spans;
}

std::vector<PixelRegion> component_regions(const Components& parts) {
  std::vector<PixelRegion> regions(parts.areas.size());
  for (const Segment& segment : parts.segments) {
    PixelRegion& region = regions[static_cast<std::size_t>(segment.label)];
    const PixelRegion own{segment.x, segment.y0, segment.x + 1, segment.y1 + 1};
    if (region.is_empty()) {
      region = own;
      continue;
    }
    region = {std::min(region.x0, own.x0), std::min(region.y0, own.y0), std::max(region.x1, own.x1),
              std::max(region.y1, own.y1)};
  }
  return regions;
}

bool remove_small_regions(Rle& mask, double area_thresh, Regions regions) {
  const bool holes = regions == Regions::kHoles;
  const Components components = find_components(mask, !holes);
  std::vector<char> small;
  for (const std::int64_t area : components.areas) {
    small.push_back(static_cast<double>(area) < area_thresh ? 1 : 0);
  }
  const auto count = std::count(small.begin(), small.end(), 1);
  if (count == 0) return false;
  if (!holes && count == static_cast<std::ptrdiff_t>(small.size())) {
    const auto largest = std::max_element(components.areas.begin(), components.areas.end());
    small[static_cast<std::size_t>(largest - components.areas.begin())] = 0;
  }
  RunWriter runs;
  std::int64_t position = 0;
  for (const Segment& segment : components.segments) {
    const std::int64_t start = segment.x * mask.height + segment.y0;
    const bool is_small = small[static_cast<std::size_t>(segment.label)] != 0;
    runs.add(holes, start - position);
    runs.add(is_small == holes, segment.y1 - segment.y0 + 1);
    position = start + segment.y1 - segment.y0 + 1;
  }
  runs.add(holes, mask.height * mask.width - position);
  mask.counts = runs.finish();
  return true;
}

}  // namespace sam_rlx
