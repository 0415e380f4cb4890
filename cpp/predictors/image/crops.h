#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "masks/rle.h"
#include "predictors/image/image_transform.h"

namespace sam_rlx {

// Columns [x0, x1) and rows [y0, y1) of an image, and the layer that they belong to.
struct CropBox {
  std::int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  std::int64_t layer = 0;
};

// The whole image and, for each further layer i, 2^i x 2^i overlapping crops, x outer.
// Upstream: generate_crop_boxes.
std::vector<CropBox> generate_crop_boxes(Size orig_hw, std::int64_t n_layers, double overlap_ratio);

// Centres of n x n cells of the unit square: x, y, x, y, ..., x fastest. Upstream:
// build_point_grid.
std::vector<double> build_point_grid(std::int64_t n_per_side);
// One grid for each layer, with int(n_per_side / scale_per_layer^layer) points a side.
std::vector<std::vector<double>> build_all_layer_point_grids(std::int64_t n_per_side,
                                                             std::int64_t n_layers,
                                                             std::int64_t scale_per_layer);

// Whether a box touches an edge of its crop that is not an edge of the image; all are xyxy in
// pixels of the image. Upstream: is_box_near_crop_edge.
using BoxSides = std::array<float, 4>;
bool is_box_near_crop_edge(const BoxSides& box, const BoxSides& crop, const BoxSides& image,
                           float atol = 20.0F);

}  // namespace sam_rlx
