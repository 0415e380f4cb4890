#pragma once

#include <cstdint>
#include <vector>

#include "masks/rle.h"
#include "masks/spans.h"

namespace sam_rlx {

// Pixels [y0, y1] of column x that belong to one component.
struct Segment {
  std::int32_t x = 0, y0 = 0, y1 = 0;
  std::int32_t label = 0;
};

// Whether pixels that share only a corner belong together.
enum class Connectivity { kFour, kEight };

// Connected components. Labels count from 0 in the order of the first 2 x 2 block of pixels, by
// rows of blocks, that a component touches: with 8 neighbours, the order of OpenCV's labels.
struct Components {
  std::vector<Segment> segments;  // by column, then by row
  std::vector<std::int64_t> areas;
};

// Components of the ones (or, with `value` false, of the zeros) of a mask.
Components find_components(const Rle& mask, bool value,
                           Connectivity connectivity = Connectivity::kEight);

// The pixels of those components that are wanted: one flag for each label.
Spans component_spans(const Components& parts, const std::vector<char>& wanted);

// The smallest region around each component.
std::vector<PixelRegion> component_regions(const Components& parts);

enum class Regions { kHoles, kIslands };

// Fills holes, or removes islands, of less than area_thresh pixels; when all islands are smaller,
// the first of the largest stays. Returns whether there was such a region. Upstream:
// segment_anything/utils/amg.py, remove_small_regions.
bool remove_small_regions(Rle& mask, double area_thresh, Regions regions);

}  // namespace sam_rlx
