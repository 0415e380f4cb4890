#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "bindings/image_array.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "core/context.h"
#include "core/cores.h"
#include "kernels/kernel_table.h"
#include "ops/resize_antialias.h"
#include "ops/resize_pillow.h"

// What Python gets (see _core.pyi). Filters are "bilinear" and "bicubic", 0 threads are one for
// each core:
//   resize_image(image, (h, w), filter, num_threads) -> image: torchvision's bytes
//   image_to_planes(image, (h, w), levels (256, 3), out (3, H, W), filter, num_threads): the same,
//     each byte by the table of its channel, with 0 to the right and below
//   resize_planes(planes (P, h, w), (h, w), filter, num_threads) -> planes, with antialias
namespace sam_rlx {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;
using Planes = py::array_t<float, py::array::c_style>;

const ResizeFilter& filter_named(const std::string& name) {
  if (name == "bilinear") return kTriangleFilter;
  if (name != "bicubic") fail("filter", "\"bilinear\" or \"bicubic\"", '"' + name + '"');
  return kCubicFilter;
}

template <class Step>
void without_gil(int num_threads, const Step& step) {
  const GilRelease release;
  Workspace workspace;
  Context ctx{.kernels = generic_kernels(),
              .workspace = workspace,
              .num_threads = num_threads > 0 ? num_threads : available_cores()};
  step(ctx);
}

py::array_t<std::uint8_t> resize_image(const py::array& image, Pair size, const std::string& filter,
                                       int num_threads) {
  const ImageArray source(image);
  const ByteResize how{size.first, size.second, filter_named(filter)};
  check_size("size", {how.height, how.width});
  auto out = make_array<std::uint8_t>({how.height, how.width, 3});
  std::uint8_t* const data = out.mutable_data();
  const std::int64_t bytes = 3 * how.width;
  without_gil(num_threads, [&](Context& ctx) {
    resize_torchvision(ctx, source.view(), how, [&](std::int64_t y, const std::uint8_t* row) {
      std::copy_n(row, bytes, data + bytes * y);
    });
  });
  return out;
}

void image_to_planes(const py::array& image, Pair size, const Array<float>& levels, Planes& out,
                     const std::string& filter, int num_threads) {
  const ImageArray source(image);
  const ByteResize how{size.first, size.second, filter_named(filter)};
  if (levels.ndim() != 2 || levels.shape(0) != 256 || levels.shape(1) != 3) {
    fail("levels", "shape (256, 3)", shape_of(levels, "levels").str());
  }
  const Shape frame{out.ndim() == 3 ? out.shape(0) : 0, out.ndim() == 3 ? out.shape(1) : 0,
                    out.ndim() == 3 ? out.shape(2) : 0};
  const std::int64_t width = frame[2], plane = frame[1] * width;
  if (frame[0] != 3 || how.height > frame[1] || how.width > width) {
    fail("out", "planes (3, H, W) with room for the image", frame.str());
  }
  float* const data = out.mutable_data();
  const float* const values = levels.data();
  without_gil(num_threads, [&](Context& ctx) {
    resize_torchvision(ctx, source.view(), how, [&](std::int64_t y, const std::uint8_t* row) {
      for (std::int64_t c = 0; c < 3; ++c) {
        float* const target = data + c * plane + y * width;
        for (std::int64_t x = 0; x < how.width; ++x) target[x] = values[3 * row[3 * x + c] + c];
        std::fill(target + how.width, target + width, 0.0F);
      }
    });
    for (std::int64_t c = 0; c < 3; ++c) {
      std::fill(data + c * plane + how.height * width, data + (c + 1) * plane, 0.0F);
    }
  });
}

py::array_t<float> resize_planes(const Array<float>& planes, Pair size, const std::string& filter,
                                 int num_threads) {
  const ConstView source = view_of(planes, "planes");
  if (source.shape.rank() != 3) fail("planes", "shape (P, h, w)", source.shape.str());
  check_size("size", {size.first, size.second});
  auto out = make_array<float>({source.shape[0], size.first, size.second});
  const View target = view_of(out);
  const ResizeFilter& how = filter_named(filter);
  without_gil(num_threads, [&](Context& ctx) { resize_antialias(ctx, source, how, target); });
  return out;
}

}  // namespace

void register_resize(py::module_& m) {
  m.def("resize_image", resize_image, py::arg("image"), py::arg("size"),
        py::arg("filter") = "bilinear", py::arg("num_threads") = 0);
  m.def("image_to_planes", image_to_planes, py::arg("image"), py::arg("size"), py::arg("levels"),
        py::arg("out").noconvert(), py::arg("filter") = "bilinear", py::arg("num_threads") = 0);
  m.def("resize_planes", resize_planes, py::arg("planes"), py::arg("size"),
        py::arg("filter") = "bilinear", py::arg("num_threads") = 0);
}

}  // namespace sam_rlx
