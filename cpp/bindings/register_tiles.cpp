#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/mask_arrays.h"
#include "bindings/register.h"
#include "masks/objects.h"
#include "masks/spans.h"
#include "masks/tiles.h"

// What Python gets (see _core.pyi):
//   rle_to_box(counts, (h, w)) -> PixelBox, inclusive
//   mask_in_image(counts, (h, w), (y0, x0), factor, (H, W)) -> counts of the mask in an image
//   merge_tiles([counts, ...], tile indices (N,), scores (N,), labels (N,), tiles (T, 4) xyxy,
//     (H, W), margin) -> [MergedMask, ...]
//   without_other_objects([counts, ...], (H, W)) -> [counts, ...]
//   keep_objects([counts, ...], (H, W)) -> indices
namespace sam_rlx {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;
using Counts = std::vector<Array<std::uint32_t>>;

std::vector<Rle> masks_from(const Counts& counts, Pair size) {
  std::vector<Rle> masks;
  for (const Array<std::uint32_t>& each : counts) masks.push_back(rle_from(each, size));
  return masks;
}

py::array_t<std::uint32_t> mask_in_image(const Array<std::uint32_t>& counts, Pair size, Pair corner,
                                         std::int64_t factor, Pair image) {
  const Rle mask = rle_from(counts, size);
  const Rle frame{image.first, image.second, {}};
  if (factor < 1) fail("factor", "at least 1", std::to_string(factor));
  return counts_array(
      rle_of(spans_in(mask, {corner.second, corner.first, factor}, frame.height, frame.width),
             frame.height, frame.width));
}

// The masks of all tiles; each with its tile, score and label.
struct TileArrays {
  Array<std::int64_t> tile;
  Array<float> scores;
  Array<std::int64_t> labels;
  Array<std::int64_t> tiles;
};

TiledImage tiled_image(const TileArrays& arrays, Pair size, std::int64_t margin) {
  if (arrays.tiles.ndim() != 2 || arrays.tiles.shape(1) != 4) {
    fail("tiles", "shape (T, 4)", shape_of(arrays.tiles, "tiles").str());
  }
  TiledImage image{size.first, size.second, {}, margin};
  for (py::ssize_t t = 0; t < arrays.tiles.shape(0); ++t) {
    const std::int64_t* const sides = arrays.tiles.data(t, 0);
    image.tiles.push_back({sides[0], sides[1], sides[2], sides[3]});
  }
  return image;
}

std::vector<MergedMask> merge(const Counts& counts, const TileArrays& arrays, Pair size,
                              std::int64_t margin) {
  const TiledImage image = tiled_image(arrays, size, margin);
  const auto count = static_cast<py::ssize_t>(counts.size());
  if (arrays.tile.size() != count || arrays.scores.size() != count ||
      arrays.labels.size() != count) {
    fail("merge_tiles", std::to_string(count) + " tiles, scores and labels", "other numbers");
  }
  std::vector<TileMask> masks;
  std::vector<Rle> codes = masks_from(counts, size);
  for (py::ssize_t i = 0; i < count; ++i) {
    const std::int64_t tile = arrays.tile.data()[i];
    if (tile < 0 || tile >= static_cast<std::int64_t>(image.tiles.size())) {
      fail("tile", "an index of tiles", std::to_string(tile));
    }
    masks.push_back({std::move(codes[static_cast<std::size_t>(i)]), tile, arrays.scores.data()[i],
                     arrays.labels.data()[i]});
  }
  const GilRelease release;
  return merge_tiles(masks, image);
}

py::list separated_masks(const Counts& counts, Pair size) {
  std::vector<Rle> masks = masks_from(counts, size);
  {
    const GilRelease release;
    masks = without_other_objects(masks);
  }
  py::list found;
  for (const Rle& mask : masks) found.append(counts_array(mask));
  return found;
}

py::array_t<std::int64_t> kept_objects(const Counts& counts, Pair size) {
  const std::vector<Rle> masks = masks_from(counts, size);
  std::vector<std::int64_t> kept;
  {
    const GilRelease release;
    kept = keep_objects(masks);
  }
  return py::array_t<std::int64_t>(static_cast<py::ssize_t>(kept.size()), kept.data());
}

}  // namespace

void register_tiles(py::module_& m) {
  py::classh<MergedMask>(m, "MergedMask")
      .def_property_readonly("counts", [](const MergedMask& x) { return counts_array(x.mask); })
      .def_readonly("members", &MergedMask::members);
  m.def(
      "rle_to_box",
      [](const Array<std::uint32_t>& counts, Pair size) { return rle_box(rle_from(counts, size)); },
      py::arg("counts"), py::arg("size"));
  m.def("mask_in_image", mask_in_image, py::arg("counts"), py::arg("size"), py::arg("corner"),
        py::arg("factor"), py::arg("image_size"));
  m.def(
      "merge_tiles",
      [](const Counts& counts, Array<std::int64_t> tile, Array<float> scores,
         Array<std::int64_t> labels, Array<std::int64_t> tiles, Pair size, std::int64_t margin) {
        return merge(counts,
                     {std::move(tile), std::move(scores), std::move(labels), std::move(tiles)},
                     size, margin);
      },
      py::arg("counts"), py::arg("tile"), py::arg("scores"), py::arg("labels"), py::arg("tiles"),
      py::arg("size"), py::arg("margin"));
  m.def("without_other_objects", separated_masks, py::arg("counts"), py::arg("size"));
  m.def("keep_objects", kept_objects, py::arg("counts"), py::arg("size"));
}

}  // namespace sam_rlx
