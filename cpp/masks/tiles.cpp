#include "masks/tiles.h"

#include <algorithm>
#include <utility>

#include "masks/components.h"
#include "masks/disjoint_sets.h"

namespace sam_rlx {
namespace {

// Sides of a region whose edges cut a mask.
struct CutSides {
  bool left = false, top = false, right = false, bottom = false;

  bool any() const { return left || top || right || bottom; }
};

// A mask with what the rule asks for.
struct TilePiece {
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

TilePiece measured(Spans spans, const PixelRegion& tile, const TiledImage& image) {
  TilePiece piece{std::move(spans), {}, 0, {}};
  piece.box = span_region(piece.spans);
  piece.area = span_area(piece.spans);
  if (piece.area > 0) piece.cut = cut_sides(piece.box, tile, image);
  return piece;
}

// The mask without the specks that inner edges of its tile cut.
TilePiece piece_of(const Rle& mask, const PixelRegion& tile, const TiledImage& image) {
  const TilePiece piece = measured(spans_of(mask), tile, image);
  if (!piece.cut.any()) return piece;
  const Components parts = find_components(mask, true);
  const std::vector<PixelRegion> regions = component_regions(parts);
  const auto largest =
      static_cast<double>(*std::max_element(parts.areas.begin(), parts.areas.end()));
  std::vector<char> stays;
  for (std::size_t part = 0; part < regions.size(); ++part) {
    const bool is_speck = static_cast<double>(parts.areas[part]) < kSpeck * largest;
    stays.push_back(is_speck && cut_sides(regions[part], tile, image).any() ? 0 : 1);
  }
  return measured(component_spans(parts, stays), tile, image);
}

// IoU of masks of two tiles, as merge_tiles says.
double seam_iou(const TilePiece& a, const TilePiece& b, const PixelRegion& overlap) {
  if (common_region(a.box, b.box).is_empty()) return 0.0;
  const std::int64_t shared = shared_area(a.spans, b.spans);
  if (shared == 0) return 0.0;
  const std::int64_t a_inside = b.cut.any() ? span_area(a.spans, overlap) : a.area;
  const std::int64_t b_inside = a.cut.any() ? span_area(b.spans, overlap) : b.area;
  return static_cast<double>(shared) / static_cast<double>(a_inside + b_inside - shared);
}

// Whether another tile sees all of a piece, and more than the piece's tile where that cuts it.
bool is_seen_better(const TilePiece& piece, std::int64_t tile, const TiledImage& image) {
  const PixelRegion& own = image.tiles[static_cast<std::size_t>(tile)];
  return std::any_of(image.tiles.begin(), image.tiles.end(), [&](const PixelRegion& other) {
    return other.holds(piece.box) &&
           ((piece.cut.left && other.x0 < own.x0) || (piece.cut.top && other.y0 < own.y0) ||
            (piece.cut.right && other.x1 > own.x1) || (piece.cut.bottom && other.y1 > own.y1));
  });
}

// For each mask those of other tiles that are of one object with it.
std::vector<std::vector<std::size_t>> same_objects(const std::vector<TileMask>& masks,
                                                   const std::vector<TilePiece>& pieces,
                                                   const TiledImage& image) {
  std::vector<std::vector<std::size_t>> of_tile(image.tiles.size());
  for (std::size_t i = 0; i < masks.size(); ++i) {
    of_tile[static_cast<std::size_t>(masks[i].tile)].push_back(i);
  }
  std::vector<std::vector<std::size_t>> same(masks.size());
  for (std::size_t s = 0; s < of_tile.size(); ++s) {
    for (std::size_t t = s + 1; t < of_tile.size() && !of_tile[s].empty(); ++t) {
      const PixelRegion overlap = common_region(image.tiles[s], image.tiles[t]);
      if (overlap.is_empty()) continue;
      for (const std::size_t a : of_tile[s]) {
        if (common_region(pieces[a].box, overlap).is_empty()) continue;
        for (const std::size_t b : of_tile[t]) {
          if (masks[a].label == masks[b].label &&
              seam_iou(pieces[a], pieces[b], overlap) >= kSeamIou) {
            same[a].push_back(b);
            same[b].push_back(a);
          }
        }
      }
    }
  }
  return same;
}

// Which masks go because a whole one stands for them.
std::vector<char> replaced_by_whole(const std::vector<TilePiece>& pieces,
                                    const std::vector<std::vector<std::size_t>>& same,
                                    const std::vector<std::size_t>& by_score) {
  std::vector<char> gone(pieces.size(), 0);
  for (const std::size_t i : by_score) {
    if (pieces[i].cut.any()) continue;
    const bool stays = gone[i] == 0;
    for (const std::size_t other : same[i]) {
      if (stays || pieces[other].cut.any()) gone[other] = 1;
    }
  }
  return gone;
}

}  // namespace

std::vector<MergedMask> merge_tiles(const std::vector<TileMask>& masks, const TiledImage& image) {
  std::vector<TilePiece> pieces;
  std::vector<std::size_t> by_score;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const PixelRegion& tile = image.tiles[static_cast<std::size_t>(masks[i].tile)];
    pieces.push_back(piece_of(masks[i].mask, tile, image));
    by_score.push_back(i);
  }
  std::stable_sort(by_score.begin(), by_score.end(),
                   [&](std::size_t a, std::size_t b) { return masks[a].score > masks[b].score; });

  const std::vector<std::vector<std::size_t>> same = same_objects(masks, pieces, image);
  const std::vector<char> gone = replaced_by_whole(pieces, same, by_score);
  DisjointSets objects(masks.size());
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (const std::size_t other : same[i]) {
      const bool are_cut = pieces[i].cut.any() && pieces[other].cut.any();
      if (are_cut && gone[i] == 0 && gone[other] == 0) objects.join(i, other);
    }
  }
  std::vector<std::vector<std::size_t>> members(masks.size());
  for (const std::size_t i : by_score) {
    if (gone[i] == 0) members[objects.root(i)].push_back(i);
  }

  std::vector<MergedMask> merged;
  for (const std::vector<std::size_t>& object : members) {
    if (object.empty()) continue;
    const std::size_t best = object.front();
    if (object.size() == 1 && is_seen_better(pieces[best], masks[best].tile, image)) continue;
    Spans spans = pieces[best].spans;
    for (std::size_t i = 1; i < object.size(); ++i) {
      spans = united(spans, pieces[object[i]].spans);
    }
    merged.push_back({rle_of(spans, image.height, image.width), {object.begin(), object.end()}});
  }
  return merged;
}

}  // namespace sam_rlx
