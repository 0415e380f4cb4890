#pragma once

#include <cstdint>
#include <span>

namespace sam_rlx {

// Sets the pixels inside of a closed line in a mask (height, width) of bytes, by the even-odd rule.
// `corners` are x0, y0, x1, y1, ... in pixels; pixel (x, y) covers x to x + 1 and y to y + 1.
// Which pixels lie inside follows COCO bit for bit: the line runs over a grid of fifths of a pixel,
// and a column of pixels is entered and left where the line crosses its middle.
// Source: what pycocotools' frPyObjects and decode give.
void fill_polygon(std::span<const double> corners, std::int64_t height, std::int64_t width,
                  std::uint8_t* mask);

}  // namespace sam_rlx
