#pragma once

#include <cstdint>
#include <vector>

#include "masks/rle.h"

namespace sam_rlx {

// Corners x0, y0, x1, y1, ... of a closed line, clockwise on the screen.
using Polygon = std::vector<std::int32_t>;

// The border of each 8-connected component of a mask (height, width) of bytes 0 or 1, by columns.
// Lines run along the edges of pixels: pixel (x, y) covers x to x + 1 and y to y + 1, as in COCO's
// polygons. Without `holes` the outer borders alone, so that filling them gives the mask back but
// for its holes. With them each hole is cut open: a vertical line to the border above it, there and
// back, makes one closed line of both, and filling it by the even-odd rule gives the mask.
std::vector<Polygon> mask_to_polygons(const std::uint8_t* mask, std::int64_t height,
                                      std::int64_t width, bool holes = false);

}  // namespace sam_rlx
