#include "masks/small_regions.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "masks/components.h"
#include "masks/rle.h"

namespace sam_rlx {
namespace {

constexpr float kHoleLogit = 0.1F;  // upstream: a small positive score
constexpr float kIslandLogit = -0.1F;
constexpr float kMargin = 10.0F;  // upstream: in the postprocessing of images

Rle rle_above(ConstView logits, float threshold) {
  const std::int64_t height = logits.shape[0], width = logits.shape[1];
  RleEncoder encoder;
  encoder.start(height, width);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(width));
  for (std::int64_t y = 0; y < height; ++y) {
    const float* const line = logits.data + y * width;
    std::transform(line, line + width, row.begin(), [threshold](float logit) {
      return static_cast<std::uint8_t>(logit > threshold);
    });
    encoder.add_row(row.data());
  }
  return encoder.finish();
}

void set_small(View logits, const Components& components, double max_area, float value) {
  const std::int64_t width = logits.shape[1];
  for (const Segment& segment : components.segments) {
    const auto area =
        static_cast<double>(components.areas[static_cast<std::size_t>(segment.label)]);
    if (area > max_area) continue;
    for (std::int64_t y = segment.y0; y <= segment.y1; ++y) {
      logits.data[y * width + segment.x] = value;
    }
  }
}

}  // namespace

void fill_holes_(View logits, std::int64_t max_area) {
  const Components holes = find_components(rle_above(logits, 0.0F), false);
  set_small(logits, holes, static_cast<double>(max_area), kHoleLogit);
}

void remove_small_components_(View logits, std::int64_t max_area) {
  fill_holes_(logits, max_area);
  const Components islands = find_components(rle_above(logits, 0.0F), true);
  const std::int64_t total =
      std::accumulate(islands.areas.begin(), islands.areas.end(), std::int64_t{0});
  const std::int64_t most = std::min(total / 2, max_area);
  set_small(logits, islands, static_cast<double>(most), kIslandLogit);
}

void remove_small_regions_(View logits, const SmallRegions& regions) {
  if (!regions.any()) return;
  const float threshold = regions.mask_threshold;
  for (std::int64_t k = 0; k < logits.shape[0]; ++k) {
    const View mask = logits[k];
    const Rle rle = rle_above(mask, threshold);
    if (regions.max_hole_area > 0.0) {
      set_small(mask, find_components(rle, false), regions.max_hole_area, threshold + kMargin);
    }
    if (regions.max_sprinkle_area > 0.0) {
      set_small(mask, find_components(rle, true), regions.max_sprinkle_area, threshold - kMargin);
    }
  }
}

}  // namespace sam_rlx
