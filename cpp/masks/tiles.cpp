#include "masks/tiles.h"

#include <algorithm>
#include <utility>

#include "masks/disjoint_sets.h"

namespace sam_rlx {
namespace {

// Sides of a region whose edges cut a mask.
struct CutSides {
  bool left = false, top = false, right = false, bottom = false;

  bool any() const { return left || top || right || bottom; }
};

// A mask with what the rule asks for.
struct Piece {
  Spans spans;
  PixelRegion box;
  std::int64_t area = 0;
  CutSides cut;
};

CutSides cut_sides(const PixelRegion& box, const PixelRegion& tile, const TiledImage& image) {
  return {tile.x0 > 0 && box.x0 < tile.x0 + image.margin,
          tile.y0 > 0 && box.y0 < tile.y0 + image.margin,
          tile.x1 < image.width && box.x1 > tile.x1 - image.margin,
          tile.y1 < image.height && box.y1 > tile.y1 - image.margin};
}

// IoU of masks of two tiles, as merge_tiles says.
double seam_iou(const Piece& a, const Piece& b, const PixelRegion& overlap) {
  if (common_region(a.box, b.box).is_empty()) return 0.0;
  const std::int64_t shared = shared_area(a.spans, b.spans);
  if (shared == 0) return 0.0;
  const std::int64_t a_inside = b.cut.any() ? span_area(a.spans, overlap) : a.area;
  const std::int64_t b_inside = a.cut.any() ? span_area(b.spans, overlap) : b.area;
  return static_cast<double>(shared) / static_cast<double>(a_inside + b_inside - shared);
}

// Whether another tile sees all of a piece, and more than the piece's tile where that cuts it.
bool is_seen_better(const Piece& piece, std::int64_t tile, const TiledImage& image) {
  const PixelRegion& own = image.tiles[static_cast<std::size_t>(tile)];
  return std::any_of(image.tiles.begin(), image.tiles.end(), [&](const PixelRegion& other) {
    return other.holds(piece.box) && ((piece.cut.left && other.x0 < own.x0) ||
                                      (piece.cut.top && other.y0 < own.y0) ||
                                      (piece.cut.right && other.x1 > own.x1) ||
                                      (piece.cut.bottom && other.y1 > own.y1));
  });
}

// The masks of each object as a set.
DisjointSets join_across_seams(const std::vector<TileMask>& masks, const std::vector<Piece>& pieces,
                             const TiledImage& image) {
  std::vector<std::vector<std::size_t>> of_tile(image.tiles.size());
  for (std::size_t i = 0; i < masks.size(); ++i) {
    of_tile[static_cast<std::size_t>(masks[i].tile)].push_back(i);
  }
  DisjointSets objects(masks.size());
  for (std::size_t s = 0; s < of_tile.size(); ++s) {
    for (std::size_t t = s + 1; t < of_tile.size() && !of_tile[s].empty(); ++t) {
      const PixelRegion overlap = common_region(image.tiles[s], image.tiles[t]);
      if (overlap.is_empty()) continue;
      for (const std::size_t a : of_tile[s]) {
        if (common_region(pieces[a].box, overlap).is_empty()) continue;
        for (const std::size_t b : of_tile[t]) {
          const bool same = masks[a].label == masks[b].label &&
                            seam_iou(pieces[a], pieces[b], overlap) >= kSeamIou;
          if (same) objects.join(a, b);
        }
      }
    }
  }
  return objects;
}

}  // namespace

std::vector<MergedMask> merge_tiles(const std::vector<TileMask>& masks, const TiledImage& image) {
  std::vector<Piece> pieces;
  for (const TileMask& mask : masks) {
    Piece piece{spans_of(mask.mask), {}, 0, {}};
    piece.box = span_region(piece.spans);
    piece.area = span_area(piece.spans);
    if (piece.area > 0) {
      piece.cut = cut_sides(piece.box, image.tiles[static_cast<std::size_t>(mask.tile)], image);
    }
    pieces.push_back(std::move(piece));
  }

  DisjointSets objects = join_across_seams(masks, pieces, image);
  std::vector<std::vector<std::size_t>> members(masks.size());
  for (std::size_t i = 0; i < masks.size(); ++i) members[objects.root(i)].push_back(i);

  std::vector<MergedMask> merged;
  for (std::vector<std::size_t>& object : members) {
    if (object.empty()) continue;
    std::stable_sort(object.begin(), object.end(), [&](std::size_t a, std::size_t b) {
      return masks[a].score > masks[b].score;
    });
    const auto whole = std::find_if(object.begin(), object.end(),
                                    [&](std::size_t i) { return !pieces[i].cut.any(); });
    if (whole != object.end()) {
      merged.push_back({masks[*whole].mask, {static_cast<std::int64_t>(*whole)}});
      continue;
    }
    if (object.size() == 1 &&
        is_seen_better(pieces[object.front()], masks[object.front()].tile, image)) {
      continue;
    }
    Spans spans;
    for (const std::size_t i : object) spans = united(spans, pieces[i].spans);
    merged.push_back({rle_of(spans, image.height, image.width), {object.begin(), object.end()}});
  }
  return merged;
}

}  // namespace sam_rlx
