#include "masks/objects.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "masks/components.h"
#include "masks/spans.h"

namespace sam_rlx {
namespace {

// A mask without its specks, its holes filled.
struct FilledMask {
  Spans spans;
  PixelRegion box;
  std::int64_t area = 0;   // with the holes
  std::int64_t clean = 0;  // its own pixels; those beside the largest component negative
};

double ratio(std::int64_t part, std::int64_t all) {
  return static_cast<double>(part) / static_cast<double>(all);
}

FilledMask filled(const Spans& spans) {
  FilledMask result{without_holes(spans), span_region(spans)};
  result.area = span_area(result.spans);
  return result;
}

std::int64_t pixels_of(const Components& parts) {
  return std::accumulate(parts.areas.begin(), parts.areas.end(), std::int64_t{0});
}

// Which components have at least a number of pixels.
std::vector<char> components_from(const Components& parts, double pixels) {
  std::vector<char> large;
  for (const std::int64_t area : parts.areas) large.push_back(static_cast<double>(area) >= pixels);
  return large;
}

FilledMask filled(const Rle& mask) {
  const Components parts = find_components(mask, true);
  if (parts.areas.empty()) return {};
  const std::int64_t largest = *std::max_element(parts.areas.begin(), parts.areas.end());
  const double least = kSpeckShare * static_cast<double>(largest);
  FilledMask result = filled(component_spans(parts, components_from(parts, least)));
  result.clean = 2 * largest - pixels_of(parts);
  return result;
}

bool is_ground(const PixelRegion& box, const Rle& mask) {
  const auto edge = [](std::int64_t side) {
    return static_cast<std::int64_t>(kGroundEdge * static_cast<double>(side));
  };
  return box.x0 <= edge(mask.width) && box.y0 <= edge(mask.height) &&
         box.x1 >= mask.width - edge(mask.width) && box.y1 >= mask.height - edge(mask.height);
}

// A mask inside of another one.
struct Inside {
  std::size_t index = 0;
  bool is_same = false;  // of the same object
};

// Whether masks inside of one, the largest first, are several objects that make it up.
bool is_union(const FilledMask& mask, const std::vector<Inside>& inside,
              const std::vector<FilledMask>& masks) {
  std::vector<const FilledMask*> apart;
  std::int64_t covered = 0;
  for (const Inside& each : inside) {
    const FilledMask& part = masks[each.index];
    const bool is_apart = std::all_of(apart.begin(), apart.end(), [&](const FilledMask* other) {
      return ratio(shared_area(part.spans, other->spans), part.area) <= kApart;
    });
    if (each.is_same || !is_apart) continue;
    apart.push_back(&part);
    covered += shared_area(part.spans, mask.spans);
  }
  return apart.size() > 1 && ratio(covered, mask.area) >= kUnionCovered;
}

// Whether two masks are of the same object.
bool are_same(const FilledMask& a, const FilledMask& b) {
  if (common_region(a.box, b.box).is_empty()) return false;
  const std::int64_t shared = shared_area(a.spans, b.spans);
  return shared > 0 && ratio(shared, a.area + b.area - shared) >= kSameObject;
}

}  // namespace

std::vector<Rle> without_other_objects(const std::vector<Rle>& given) {
  std::vector<FilledMask> masks;
  for (const Rle& mask : given) masks.push_back(filled(spans_of(mask)));
  std::vector<Rle> result = given;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Components parts = find_components(given[i], true);
    const double least = kObjectShare * static_cast<double>(pixels_of(parts));
    const std::vector<char> large = components_from(parts, least);
    const auto count = std::count(large.begin(), large.end(), 1);
    if (count < 2) continue;
    std::vector<char> stays(parts.areas.size(), 1);
    auto left = count;
    for (std::size_t part = 0; part < large.size(); ++part) {
      if (large[part] == 0) continue;
      std::vector<char> alone(parts.areas.size(), 0);
      alone[part] = 1;
      const FilledMask component = filled(component_spans(parts, alone));
      for (std::size_t j = 0; j < masks.size() && stays[part] != 0; ++j) {
        if (j != i && are_same(component, masks[j])) stays[part] = 0;
      }
      if (stays[part] == 0) --left;
    }
    if (left == count) continue;
    const Spans rest = left == 0 ? Spans{} : component_spans(parts, stays);
    result[i] = rle_of(rest, given[i].height, given[i].width);
  }
  return result;
}

std::vector<std::int64_t> keep_objects(const std::vector<Rle>& given) {
  std::vector<FilledMask> masks;
  std::vector<std::size_t> order, ground;
  for (std::size_t i = 0; i < given.size(); ++i) {
    masks.push_back(filled(given[i]));
    if (masks[i].area == 0) continue;
    (is_ground(masks[i].box, given[i]) ? ground : order).push_back(i);
  }
  if (order.empty()) order = ground;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return masks[a].area > masks[b].area; });

  std::vector<char> gone(given.size(), 0);
  std::vector<std::int64_t> kept;
  for (auto turn = order.begin(); turn != order.end(); ++turn) {
    if (gone[*turn] != 0) continue;
    const FilledMask& mask = masks[*turn];
    std::vector<Inside> inside;
    for (auto other = turn + 1; other != order.end(); ++other) {
      const FilledMask& part = masks[*other];
      if (gone[*other] != 0 || common_region(part.box, mask.box).is_empty()) continue;
      const std::int64_t shared = shared_area(part.spans, mask.spans);
      if (ratio(shared, part.area) < kPartInside) continue;
      const bool is_same = ratio(shared, part.area + mask.area - shared) >= kSameObject;
      inside.push_back({*other, is_same});
    }
    if (is_union(mask, inside, masks)) continue;
    std::size_t object = *turn;
    for (const Inside& each : inside) {
      gone[each.index] = 1;
      if (each.is_same && masks[each.index].clean > masks[object].clean) object = each.index;
    }
    kept.push_back(static_cast<std::int64_t>(object));
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace sam_rlx
