#include "bindings/testing_register.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>

#include "bindings/image_array.h"
#include "kernels/kernel_table.h"
#include "ops/resize.h"
#include "ops/resize_pillow.h"
#include "predictors/image_transform.h"

namespace py = pybind11;

namespace sam_rlx {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

Shape shape_of(const py::array& array) {
  Shape shape;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) shape.push_back(array.shape(axis));
  return shape;
}

// Runs use(ctx) with a context of its own, without the GIL.
template <class Use>
void with_context(int num_threads, const Use& use) {
  const py::gil_scoped_release release;
  Workspace workspace;
  Context ctx{.kernels = generic_kernels(), .workspace = workspace, .num_threads = num_threads};
  use(ctx);
}

using Resize = void (*)(Context&, ConstView, View);

// A resize that keeps all sizes but those given by `sizes`, which start at `axis`.
void bind_resize(py::module_& m, const char* name, Resize resize, int axis) {
  m.def(
      name,
      [resize, axis](const Floats& input, const std::vector<std::int64_t>& sizes, int num_threads) {
        Shape shape = shape_of(input);
        for (std::size_t i = 0; i < sizes.size(); ++i) shape[axis + static_cast<int>(i)] = sizes[i];
        std::vector<py::ssize_t> dims;
        for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
        py::array_t<float> out(dims);
        const View view{out.mutable_data(), shape};
        const ConstView source{input.data(), shape_of(input)};
        with_context(num_threads, [&](Context& ctx) { resize(ctx, source, view); });
        return out;
      },
      py::arg("input"), py::arg("sizes"), py::arg("num_threads") = 1);
}

py::array_t<std::uint8_t> resize_pillow_array(const py::array& image, std::int64_t height,
                                              std::int64_t width, int num_threads) {
  const ImageArray source(image);
  py::array_t<std::uint8_t> out({height, width, std::int64_t{3}});
  std::uint8_t* const data = out.mutable_data();
  with_context(num_threads, [&](Context& ctx) {
    resize_pillow(ctx, source.view(), height, width, [&](std::int64_t y, const std::uint8_t* row) {
      std::copy_n(row, 3 * width, data + 3 * width * y);
    });
  });
  return out;
}

py::tuple preprocess(const py::array& image, std::int64_t side, int num_threads) {
  const ImageArray source(image);
  ImageTransform transform;
  transform.side = side;
  py::array_t<float> out({side, side, std::int64_t{3}});
  const View view{out.mutable_data(), {side, side, 3}};
  Size input_hw;
  with_context(num_threads, [&](Context& ctx) {
    input_hw = transform.preprocess(ctx, source.view(), view);
  });
  return py::make_tuple(out, py::make_tuple(input_hw.height, input_hw.width));
}

py::array_t<double> transform_coords(const Doubles& points, std::pair<std::int64_t, std::int64_t> hw,
                                     std::int64_t side) {
  ImageTransform transform;
  transform.side = side;
  py::array_t<double> out(std::vector<py::ssize_t>(points.shape(), points.shape() + points.ndim()));
  transform.transform_coords({hw.first, hw.second}, points.size() / 2, points.data(),
                             out.mutable_data());
  return out;
}

}  // namespace

void register_masks(py::module_& m) {
  bind_resize(m, "resize_bilinear", resize_bilinear, 1);
  bind_resize(m, "resize_bilinear_hwc", resize_bilinear_hwc, 0);
  bind_resize(m, "resize_bicubic_hwc", resize_bicubic_hwc, 0);
  bind_resize(m, "resize_linear_rows", resize_linear_rows, 0);
  m.def("resize_pillow", resize_pillow_array, py::arg("image"), py::arg("height"),
        py::arg("width"), py::arg("num_threads") = 1);
  m.def("preprocess", preprocess, py::arg("image"), py::arg("side") = 1024,
        py::arg("num_threads") = 1);
  m.def("transform_coords", transform_coords, py::arg("points"), py::arg("orig_hw"),
        py::arg("side") = 1024);
}

}  // namespace sam_rlx
