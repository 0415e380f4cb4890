#include "predictors/image/crops.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kMaxLayers = 8;
constexpr double kMaxOverlap = 1e6;  // sides stay far below the largest integer

std::int64_t crop_length(std::int64_t side, std::int64_t crops, std::int64_t overlap) {
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(overlap * (crops - 1) + side) / static_cast<double>(crops)));
}

}  // namespace

std::vector<CropBox> generate_crop_boxes(Size orig_hw, std::int64_t n_layers,
                                         double overlap_ratio) {
  if (n_layers < 0 || n_layers > kMaxLayers) {
    fail("crop_n_layers", "0 to " + std::to_string(kMaxLayers), std::to_string(n_layers));
  }
  if (n_layers > 0 && !(std::abs(overlap_ratio) <= kMaxOverlap)) {
    fail("crop_overlap_ratio", "0 to 1", std::to_string(overlap_ratio));
  }
  check_size("image", orig_hw);
  const std::int64_t height = orig_hw.height, width = orig_hw.width;
  const auto short_side = static_cast<double>(std::min(height, width));
  std::vector<CropBox> boxes{{0, 0, width, height, 0}};
  for (std::int64_t layer = 1; layer <= n_layers; ++layer) {
    const std::int64_t crops = std::int64_t{1} << layer;
    const auto overlap =
        static_cast<std::int64_t>(overlap_ratio * short_side * (2.0 / static_cast<double>(crops)));
    const std::int64_t crop_w = crop_length(width, crops, overlap);
    const std::int64_t crop_h = crop_length(height, crops, overlap);
    for (std::int64_t i = 0; i < crops; ++i) {
      const std::int64_t x0 = (crop_w - overlap) * i;
      for (std::int64_t j = 0; j < crops; ++j) {
        const std::int64_t y0 = (crop_h - overlap) * j;
        boxes.push_back(
            {x0, y0, std::min(x0 + crop_w, width), std::min(y0 + crop_h, height), layer});
      }
    }
  }
  return boxes;
}

std::vector<double> build_point_grid(std::int64_t n_per_side) {
  if (n_per_side < 1) {
    fail("points per side", "at least 1 in every layer", std::to_string(n_per_side));
  }
  // The positions of numpy.linspace(offset, 1 - offset, n), in its order of operations.
  const auto n = static_cast<double>(n_per_side);
  const double offset = 1.0 / (2.0 * n);
  const double stop = 1.0 - offset;
  std::vector<double> side(static_cast<std::size_t>(n_per_side), offset);
  if (n_per_side > 1) {
    const double step = (stop - offset) / (n - 1.0);
    for (std::size_t i = 0; i < side.size(); ++i) side[i] = static_cast<double>(i) * step + offset;
    side.back() = stop;
  }
  std::vector<double> points;
  points.reserve(2 * side.size() * side.size());
  for (const double y : side) {
    for (const double x : side) {
      points.push_back(x);
      points.push_back(y);
    }
  }
  return points;
}

std::vector<std::vector<double>> build_all_layer_point_grids(std::int64_t n_per_side,
                                                             std::int64_t n_layers,
                                                             std::int64_t scale_per_layer) {
  if (scale_per_layer < 1) {
    fail("crop_n_points_downscale_factor", "at least 1", std::to_string(scale_per_layer));
  }
  std::vector<std::vector<double>> grids;
  double divisor = 1.0;
  for (std::int64_t layer = 0; layer <= n_layers; ++layer) {
    grids.push_back(
        build_point_grid(static_cast<std::int64_t>(static_cast<double>(n_per_side) / divisor)));
    divisor *= static_cast<double>(scale_per_layer);
  }
  return grids;
}

bool is_box_near_crop_edge(const BoxSides& box, const BoxSides& crop, const BoxSides& image,
                           float atol) {
  const auto near = [&](float a, float b) { return std::abs(a - b) <= atol; };
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (near(box[i], crop[i]) && !near(box[i], image[i])) return true;
  }
  return false;
}

bool is_crop_box_near_edge(BoxSides box, const BoxSides& crop, const BoxSides& image, float atol) {
  for (std::size_t i = 0; i < box.size(); ++i) box[i] += crop[i % 2];
  return is_box_near_crop_edge(box, crop, image, atol);
}

}  // namespace sam_rlx
