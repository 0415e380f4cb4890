#pragma once

#include <cstdint>
#include <vector>

#include "masks/rle.h"
#include "masks/spans.h"

namespace sam_rlx {

// IoU in the overlap of two tiles from which on two masks are of one object.
constexpr double kSeamIou = 0.5;
// Of the pixels of a mask's largest component: what has less, and is cut by an edge, is a speck.
constexpr double kSpeck = 0.1;

// A mask that was found in a tile.
struct TileMask {
  Rle mask;               // at the size of the image
  std::int64_t tile = 0;  // index of its tile
  float score = 0.0F;
  std::int64_t label = 0;  // masks of different labels are never of one object
};

struct TiledImage {
  std::int64_t height = 0, width = 0;
  std::vector<PixelRegion> tiles;
  // A mask that comes so near to an inner edge of its tile, in pixels, is cut by it.
  std::int64_t margin = 1;
};

// An object, and the masks that it is made of, by index: the best one, or all pieces.
struct MergedMask {
  Rle mask;
  std::vector<std::int64_t> members;  // the best score first
};

// The masks of all tiles as objects of the image, in the order of each one's first member.
//
// An edge of a tile that is not an edge of the image cuts the masks that reach it. Components of a
// mask that are cut and small (kSpeck) go: they are ends of other objects. A mask that no edge cuts
// is whole. Two masks of different tiles are of one object if their IoU is at least
// kSeamIou. It counts the pixels of the overlap of the two tiles, which is what both tiles see,
// and, where one mask is whole, also those of the other one beyond the overlap: a whole mask says
// that there are none.
//
// Of whole masks of one object the one with the best score stays, as in suppression by score: two
// whole masks that are not of one object both stay, whatever others are of one object with both.
// Cut masks that are of one object with a whole one go. The rest are joined over any number of
// tiles, and an object is the union of its pieces. A piece that no mask of another tile belongs to
// goes if another tile sees all of it and more of what the seam cuts off.
std::vector<MergedMask> merge_tiles(const std::vector<TileMask>& masks, const TiledImage& image);

}  // namespace sam_rlx
