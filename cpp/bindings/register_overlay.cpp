#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "bindings/gil.h"
#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "bindings/register.h"
#include "masks/overlay.h"

// What Python gets (see _core.pyi):
//   overlay(image, run lengths of each mask, colors, opacity, line, boxes, box_colors, points,
//           point_colors) -> image
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

// What is drawn beside the masks.
struct MarkArrays {
  const Rows& boxes;
  const std::vector<Rgb>& box_colors;
  const Rows& points;
  const std::vector<Rgb>& point_colors;
};

void add_marks(const MarkArrays& marks, Overlay& drawn) {
  check_rows(marks.boxes, 4, marks.box_colors.size(), "boxes");
  for (std::size_t i = 0; i < marks.box_colors.size(); ++i) {
    const double* const box = marks.boxes.data() + 4 * i;
    drawn.boxes.push_back({box[0], box[1], box[2], box[3], marks.box_colors[i]});
  }
  check_rows(marks.points, 2, marks.point_colors.size(), "points");
  for (std::size_t i = 0; i < marks.point_colors.size(); ++i) {
    const double* const point = marks.points.data() + 2 * i;
    drawn.points.push_back({point[0], point[1], marks.point_colors[i]});
  }
}

py::array_t<std::uint8_t> overlay(const py::array& image,
                                  const std::vector<Array<std::uint32_t>>& counts,
                                  const std::vector<Rgb>& colors, float opacity, double line,
                                  const MarkArrays& marks) {
  const ImageArray source(image);
  const ImageView view = source.view();
  if (counts.size() != colors.size()) {
    fail("colors", std::to_string(counts.size()) + " colours", std::to_string(colors.size()));
  }
  std::vector<Rle> runs;
  runs.reserve(counts.size());
  Overlay drawn;
  drawn.opacity = opacity;
  drawn.line = line;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    runs.push_back(rle_from(counts[i], {view.height, view.width}));
    drawn.masks.push_back({.runs = &runs[i], .color = colors[i]});
  }
  add_marks(marks, drawn);
  auto out = make_array<std::uint8_t>({view.height, view.width, 3});
  std::uint8_t* const pixels = out.mutable_data();
  const GilRelease release;
  draw_overlay(view, drawn, pixels);
  return out;
}

}  // namespace

void register_overlay(py::module_& m) {
  m.def(
      "overlay",
      [](const py::array& image, const std::vector<Array<std::uint32_t>>& counts,
         const std::vector<Rgb>& colors, float opacity, double line, const Rows& boxes,
         const std::vector<Rgb>& box_colors, const Rows& points,
         const std::vector<Rgb>& point_colors) {
        return overlay(image, counts, colors, opacity, line,
                       {boxes, box_colors, points, point_colors});
      },
      py::arg("image"), py::arg("counts"), py::arg("colors"), py::arg("opacity"), py::arg("line"),
      py::arg("boxes"), py::arg("box_colors"), py::arg("points"), py::arg("point_colors"));
}

}  // namespace sam_rlx
