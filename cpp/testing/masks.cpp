#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "bindings/gil.h"
#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "kernels/kernel_table.h"
#include "masks/components.h"
#include "ops/resize.h"
#include "ops/resize_pillow.h"
#include "testing/register.h"

namespace sam_rlx {
namespace {

// Runs use(ctx) with a context of its own, without the GIL.
template <class Use>
void without_gil(int num_threads, const Use& use) {
  const GilRelease release;
  Workspace workspace;
  Context ctx{.kernels = generic_kernels(), .workspace = workspace, .num_threads = num_threads};
  use(ctx);
}

using ResizeFloats = void (*)(Context&, ConstView, View);

// A resize that keeps all sizes but those given by `sizes`, which start at `axis`.
void bind_resize(py::module_& m, const char* name, ResizeFloats resize, int axis) {
  m.def(
      name,
      [resize, axis](const Array<float>& input, const std::vector<std::int64_t>& sizes,
                     int num_threads) {
        const ConstView source = view_of(input, "input");
        Shape shape = source.shape;
        for (std::size_t i = 0; i < sizes.size(); ++i) shape[axis + static_cast<int>(i)] = sizes[i];
        auto out = make_array<float>(shape);
        const View view = view_of(out);
        without_gil(num_threads, [&](Context& ctx) { resize(ctx, source, view); });
        return out;
      },
      py::arg("input"), py::arg("sizes"), py::arg("num_threads") = 1);
}

using ResizeBytes = void (*)(Context&, const ImageView&, std::int64_t, std::int64_t,
                             const ImageRowSink&);

void bind_resize_bytes(py::module_& m, const char* name, ResizeBytes resize) {
  m.def(
      name,
      [resize](const py::array& image, std::int64_t height, std::int64_t width, int num_threads) {
        const ImageArray source(image);
        auto out = make_array<std::uint8_t>({height, width, 3});
        std::uint8_t* const data = out.mutable_data();
        without_gil(num_threads, [&](Context& ctx) {
          resize(ctx, source.view(), height, width, [&](std::int64_t y, const std::uint8_t* row) {
            std::copy_n(row, 3 * width, data + 3 * width * y);
          });
        });
        return out;
      },
      py::arg("image"), py::arg("height"), py::arg("width"), py::arg("num_threads") = 1);
}

Array<float> preprocess_sam3(const py::array& image, std::int64_t side, bool integer,
                             int num_threads) {
  const ImageArray source(image);
  ByteSquareTransform transform;
  transform.side = side;
  transform.resize = integer ? Resize::kInteger : Resize::kFloat;
  auto out = make_array<float>({side, side, 3});
  const View view = view_of(out);
  without_gil(num_threads, [&](Context& ctx) { transform.preprocess(ctx, source.view(), view); });
  return out;
}

// A frame of a video as a loader of upstream's resizes it, as bytes.
py::array_t<std::uint8_t> resize_frame(const py::array& image, std::int64_t side,
                                       const std::string& resize) {
  const ImageArray source(image);
  const ByteSquareTransform transform{
      .side = side,
      .resize = resize == "cubic" ? Resize::kCubic : Resize::kBicubic,
      .mean = {},
      .std = {1.0F, 1.0F, 1.0F},
      .multiplies = false};
  Tensor levels({side, side, 3});
  without_gil(1, [&](Context& ctx) { transform.preprocess(ctx, source.view(), levels.view()); });
  auto out = make_array<std::uint8_t>({side, side, 3});
  std::transform(
      levels.data(), levels.data() + levels.numel(), out.mutable_data(),
      [](float level) { return static_cast<std::uint8_t>(std::lround(level * 255.0F)); });
  return out;
}

py::tuple preprocess(const py::array& image, std::int64_t side, int num_threads) {
  const ImageArray source(image);
  ImageTransform transform;
  transform.side = side;
  auto out = make_array<float>({side, side, 3});
  const View view = view_of(out);
  Size input_hw;
  without_gil(num_threads,
              [&](Context& ctx) { input_hw = transform.preprocess(ctx, source.view(), view); });
  return py::make_tuple(out, py::make_tuple(input_hw.height, input_hw.width));
}

py::tuple resized_hw(std::pair<std::int64_t, std::int64_t> hw, std::int64_t side) {
  ImageTransform transform;
  transform.side = side;
  const Size found = transform.resized_hw({hw.first, hw.second});
  return py::make_tuple(found.height, found.width);
}

py::tuple connected_components(const MaskArray& mask) {
  const std::uint8_t* const pixels = mask_bytes(mask);
  const std::int64_t height = mask.shape(0), width = mask.shape(1);
  const Components components = find_components(encode_rle(pixels, height, width, width), true);
  auto labels = make_array<std::int32_t>({height, width});
  std::int32_t* const data = labels.mutable_data();
  std::fill_n(data, labels.size(), 0);
  for (const Segment& segment : components.segments) {
    for (std::int64_t y = segment.y0; y <= segment.y1; ++y) {
      data[y * width + segment.x] = segment.label + 1;
    }
  }
  return py::make_tuple(labels, components.areas);
}

using GeometryTuple = std::array<std::int64_t, 7>;

MaskGeometry geometry_of(const GeometryTuple& g) {
  return {g[0], g[1], g[2], g[3], g[4], g[5], g[6]};
}

// Each mask's counts, box, count above thresholds[1] and count above thresholds[2]; ones are above
// thresholds[0]. frame: height, width, x0, y0.
py::list summaries(const Array<float>& low_res, const GeometryTuple& geometry,
                   const std::array<float, 3>& thresholds, const std::array<std::int64_t, 4>& frame,
                   int num_threads) {
  const ConstView source = view_of(low_res, "low_res");
  std::vector<const float*> masks;
  for (std::int64_t k = 0; k < source.shape[0]; ++k) masks.push_back(source[k].data);
  std::vector<MaskSummary> found(masks.size());
  const SummaryArgs args{
      thresholds[0], thresholds[1], thresholds[2], {frame[0], frame[1], frame[2], frame[3]}};
  without_gil(num_threads, [&](Context& ctx) {
    summarize_masks(ctx, masks, geometry_of(geometry), args, found.data());
  });
  py::list list;
  for (const MaskSummary& mask : found) {
    list.append(py::make_tuple(counts_array(mask.rle),
                               py::make_tuple(mask.box.x0, mask.box.y0, mask.box.x1, mask.box.y1),
                               mask.count_high, mask.count_low));
  }
  return list;
}

// A crop predictor written in Python: set_image(image), predict(points, iou_threshold) ->
// (low_res, iou), and the attributes geometry, masks_per_point and mask_threshold.
class PythonPredictor : public CropPredictor {
 public:
  explicit PythonPredictor(py::object object) : object_(std::move(object)) {}

  void set_image(const ImageView& crop) override {
    auto image = make_array<std::uint8_t>({crop.height, crop.width, 3});
    for (std::int64_t y = 0; y < crop.height; ++y) {
      std::copy_n(crop.row(y), 3 * crop.width, image.mutable_data() + 3 * crop.width * y);
    }
    object_.attr("set_image")(image);
  }
  MaskGeometry geometry() const override {
    return geometry_of(object_.attr("geometry").cast<GeometryTuple>());
  }
  std::int64_t masks_per_point() const override {
    return object_.attr("masks_per_point").cast<std::int64_t>();
  }
  double mask_threshold() const override { return object_.attr("mask_threshold").cast<double>(); }
  void predict(const double* points, std::optional<float> iou_threshold, View low_res,
               View iou) override {
    auto array = make_array<double>({iou.shape[0], 2});
    std::copy_n(points, array.size(), array.mutable_data());
    const auto [masks, scores] =
        object_.attr("predict")(array, iou_threshold).cast<std::pair<Array<float>, Array<float>>>();
    if (masks.size() != low_res.numel() || scores.size() != iou.numel()) {
      fail_internal("the test's predictor returned other sizes");
    }
    std::copy_n(masks.data(), low_res.numel(), low_res.data);
    std::copy_n(scores.data(), iou.numel(), iou.data);
  }

 private:
  py::object object_;
};

py::list generate_masks(const py::array& image, const py::object& predictor,
                        const py::dict& options,
                        const std::optional<std::vector<Array<double>>>& point_grids,
                        int num_threads, const Progress& progress) {
  const ImageArray source(image);
  PythonPredictor wrapped(predictor);
  Workspace workspace;
  Context ctx{.kernels = generic_kernels(), .workspace = workspace, .num_threads = num_threads};
  const MaskGenerator generator(generator_config(options, point_grids));
  return record_dicts(generator.generate(ctx, source.view(), wrapped, progress));
}

}  // namespace

void register_masks(py::module_& m) {
  bind_resize(m, "resize_bilinear", resize_bilinear, 1);
  bind_resize(m, "resize_bicubic_hwc", resize_bicubic_hwc, 0);
  bind_resize(m, "resize_linear_rows", resize_linear_rows, 0);
  bind_resize_bytes(m, "resize_pillow", resize_pillow);
  bind_resize_bytes(m, "resize_pillow_bicubic", resize_pillow_bicubic);
  bind_resize_bytes(m, "resize_torchvision", resize_torchvision);
  m.def("preprocess_sam3", preprocess_sam3, py::arg("image"), py::arg("side") = 1008,
        py::arg("integer") = false, py::arg("num_threads") = 1);
  m.def("resize_frame", resize_frame, py::arg("image"), py::arg("side"), py::arg("resize"));
  m.def("preprocess", preprocess, py::arg("image"), py::arg("side") = 1024,
        py::arg("num_threads") = 1);
  m.def("resized_hw", resized_hw, py::arg("orig_hw"), py::arg("side"));
  m.def("connected_components", connected_components, py::arg("mask"));
  m.def("summarize_masks", summaries, py::arg("low_res"), py::arg("geometry"),
        py::arg("thresholds"), py::arg("frame"), py::arg("num_threads") = 1);
  m.def("generate_masks", generate_masks, py::arg("image"), py::arg("predictor"),
        py::arg("options"), py::arg("point_grids") = py::none(), py::arg("num_threads") = 1,
        py::arg("progress") = Progress());
}

}  // namespace sam_rlx
