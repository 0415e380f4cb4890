#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/gil.h"
#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "bindings/register.h"
#include "masks/overlay.h"

// What Python gets (see _core.pyi):
//   overlay(image, masks, colors, opacity, line, boxes, box_colors, points, point_colors) -> image
//   overlay_runs(image, run lengths of each mask, colors, opacity, line) -> image
namespace sam_rlx {
namespace {

using Rows = Array<double>;

void check_rows(const Rows& rows, py::ssize_t width, std::size_t count, const char* where) {
  const bool fits = rows.ndim() == 2 && rows.shape(1) == width;
  if (!fits || static_cast<std::size_t>(rows.shape(0)) != count) {
    fail(where, "shape (" + std::to_string(count) + ", " + std::to_string(width) + ")",
         shape_of(rows, where).str());
  }
}

py::array_t<std::uint8_t> overlay(const py::array& image, const std::vector<MaskArray>& masks,
                                  const std::vector<Rgb>& colors, float opacity, double line,
                                  const Rows& boxes, const std::vector<Rgb>& box_colors,
                                  const Rows& points, const std::vector<Rgb>& point_colors) {
  const ImageArray source(image);
  const ImageView view = source.view();
  if (masks.size() != colors.size()) {
    fail("colors", std::to_string(masks.size()) + " colours", std::to_string(colors.size()));
  }
  if (!(line >= 1.0 && line <= 1024.0)) fail("line", "1 to 1024", std::to_string(line));
  Overlay drawn{.opacity = opacity, .line = line};
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const std::uint8_t* const pixels = mask_bytes(masks[i]);
    if (masks[i].shape(0) != view.height || masks[i].shape(1) != view.width) {
      fail("mask", "the shape of the image", shape_of(masks[i], "mask").str());
    }
    drawn.masks.push_back({.pixels = pixels, .color = colors[i]});
  }
  check_rows(boxes, 4, box_colors.size(), "boxes");
  for (std::size_t i = 0; i < box_colors.size(); ++i) {
    const double* const box = boxes.data() + 4 * i;
    drawn.boxes.push_back({box[0], box[1], box[2], box[3], box_colors[i]});
  }
  check_rows(points, 2, point_colors.size(), "points");
  for (std::size_t i = 0; i < point_colors.size(); ++i) {
    drawn.points.push_back({points.data()[2 * i], points.data()[2 * i + 1], point_colors[i]});
  }
  auto out = make_array<std::uint8_t>({view.height, view.width, 3});
  std::uint8_t* const pixels = out.mutable_data();
  const GilRelease release;
  draw_overlay(view, drawn, pixels);
  return out;
}

py::array_t<std::uint8_t> overlay_runs(const py::array& image,
                                       const std::vector<Array<std::uint32_t>>& counts,
                                       const std::vector<Rgb>& colors, float opacity, double line) {
  const ImageArray source(image);
  const ImageView view = source.view();
  if (counts.size() != colors.size()) {
    fail("colors", std::to_string(counts.size()) + " colours", std::to_string(colors.size()));
  }
  if (!(line >= 1.0 && line <= 1024.0)) fail("line", "1 to 1024", std::to_string(line));
  std::vector<Rle> runs;
  runs.reserve(counts.size());
  Overlay drawn{.opacity = opacity, .line = line};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    runs.push_back(rle_from(counts[i], {view.height, view.width}));
    drawn.masks.push_back({.runs = &runs[i], .color = colors[i]});
  }
  auto out = make_array<std::uint8_t>({view.height, view.width, 3});
  std::uint8_t* const pixels = out.mutable_data();
  const GilRelease release;
  draw_overlay(view, drawn, pixels);
  return out;
}

}  // namespace

void register_overlay(py::module_& m) {
  m.def("overlay_runs", overlay_runs, py::arg("image"), py::arg("counts"), py::arg("colors"),
        py::arg("opacity"), py::arg("line"));
  m.def("overlay", overlay, py::arg("image"), py::arg("masks"), py::arg("colors"),
        py::arg("opacity"), py::arg("line"), py::arg("boxes"), py::arg("box_colors"),
        py::arg("points"), py::arg("point_colors"));
}

}  // namespace sam_rlx
