#pragma once

#include <cstdint>
#include <vector>

#include "masks/rle.h"

namespace sam_rlx {

// Rows [y0, y1) of column x.
struct ColumnSpan {
  std::int32_t x = 0, y0 = 0, y1 = 0;
};

// The pixels of a mask as columns of ones: by column, then by row; none touches the next one in its
// column. What masks share is found without their pixels.
using Spans = std::vector<ColumnSpan>;

// Columns [x0, x1) and rows [y0, y1) of an image.
struct PixelRegion {
  std::int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;

  bool is_empty() const { return x0 >= x1 || y0 >= y1; }
  bool holds(const PixelRegion& other) const {
    return x0 <= other.x0 && y0 <= other.y0 && x1 >= other.x1 && y1 >= other.y1;
  }
};
PixelRegion common_region(const PixelRegion& a, const PixelRegion& b);

// How a mask lies in an image: each of its pixels covers factor x factor pixels, and its first one
// begins at (x0, y0). What reaches out of the image is cut off.
struct Placement {
  std::int64_t x0 = 0, y0 = 0;
  std::int64_t factor = 1;
};

// The ones (or, with `value` false, the zeros) of a mask.
Spans spans_of(const Rle& mask, bool value = true);
// The ones of a mask in an image of height x width.
Spans spans_in(const Rle& mask, const Placement& placement, std::int64_t height,
               std::int64_t width);
Rle rle_of(const Spans& spans, std::int64_t height, std::int64_t width);

std::int64_t span_area(const Spans& spans);
// Pixels inside of a region.
std::int64_t span_area(const Spans& spans, const PixelRegion& region);
// The smallest region that holds all; an empty one for no spans.
PixelRegion span_region(const Spans& spans);
// Pixels that both have.
std::int64_t shared_area(const Spans& a, const Spans& b);
// Pixels that any of them has.
Spans united(const Spans& a, const Spans& b);
// The mask and its holes: zeros that no 8-connected path of zeros joins with the outside.
Spans without_holes(const Spans& spans);

}  // namespace sam_rlx
