#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "bindings/embeddings.h"
#include "bindings/gil.h"
#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "bindings/register.h"
#include "predictors/image/mask_generator.h"
#include "predictors/image/sam_crop_predictor.h"

namespace sam_rlx {
namespace {

using ProgressCallback = std::optional<py::function>;

Progress progress_of(const ProgressCallback& progress) {
  if (!progress) return {};
  return [&progress](std::int64_t done, std::int64_t total) {
    call_python([&] {
      return PyObject_CallFunction(progress->ptr(), "LL", static_cast<long long>(done),
                                   static_cast<long long>(total));
    });
  };
}

// Everything mode with a predictor of its own.
struct BoundMaskGenerator {
  ImagePredictor predictor;
  MaskGenerator generator;
  CropOptions crop_options;
  BusyFlag busy;

  BoundMaskGenerator(std::shared_ptr<const Model> model, int num_threads,
                     const MaskGeneratorConfig& config, const CropOptions& options)
      : predictor(std::move(model), num_threads), generator(config), crop_options(options) {
    if (options.use_m2m && !predictor.model().family().defaults.refines_masks) {
      fail("use_m2m", "a SAM 2 model", predictor.model().info().family);
    }
    predictor.check_hq_token_only(options.hq_token_only);
    predictor.set_poll_interrupt(poll_python_signals);
  }

  py::list generate(const py::array& image, const ProgressCallback& progress) {
    const InUse guard(busy, "generate");
    const ImageArray pixels(image);
    return run(pixels.view(), crop_options, progress_of(progress));
  }

  py::list generate_encoded(const std::vector<Array<float>>& embeddings,
                            std::pair<std::int64_t, std::int64_t> orig_hw,
                            const ProgressCallback& progress) {
    const InUse guard(busy, "generate");
    set_image_embeddings(predictor, embeddings, orig_hw);
    CropOptions options = crop_options;
    options.is_encoded = true;
    // Nobody reads pixels: there is one crop, which is encoded.
    return run({.height = orig_hw.first, .width = orig_hw.second}, options, progress_of(progress));
  }

 private:
  py::list run(const ImageView& image, const CropOptions& options, const Progress& report) {
    std::vector<MaskRecord> records;
    {
      const GilRelease release;
      SamCropPredictor crops(predictor, options);
      Workspace workspace;  // the predictor's own is in use while it decodes
      Context ctx{.kernels = predictor.model().kernels(),
                  .workspace = workspace,
                  .num_threads = predictor.num_threads(),
                  .poll_interrupt = poll_python_signals};
      records = generator.generate(ctx, image, crops, report);
    }
    return record_dicts(records);
  }
};

// Masks of points on a crop that the predictor has.
struct PointMasks {
  py::list counts;                  // RLE at the size of the image
  py::array_t<float> scores;        // predicted IoU
  py::array_t<std::int64_t> boxes;  // (N, 4): corners in the image, both inside
  std::int64_t num_enough = 0;      // masks whose IoU and stability are enough, cut off or not
};

using Pair = std::pair<std::int64_t, std::int64_t>;

struct PointCrop {
  CropBox box;
  Size orig_hw, input_hw;
};

PointMasks point_masks(ImagePredictor& predictor, const Array<double>& points,
                       const PointCrop& crop, const PointMaskRules& rules, double mask_threshold) {
  if (points.ndim() != 2 || points.shape(1) != 2) {
    fail("points", "shape (N, 2)", shape_of(points, "points").str());
  }
  const std::vector<double> coords(points.data(), points.data() + points.size());
  std::vector<MaskRecord> records;
  PointMasks out;
  {
    const GilRelease release;
    const Size crop_hw{crop.box.y1 - crop.box.y0, crop.box.x1 - crop.box.x0};
    SamCropPredictor crops(predictor, {.mask_threshold = mask_threshold,
                                       .is_encoded = true,
                                       .frame = Frame::kModel,
                                       .crop_and_input_hw = std::pair(crop_hw, crop.input_hw)});
    Workspace workspace;  // the predictor's own is in use while it decodes
    Context ctx{.kernels = predictor.model().kernels(),
                .workspace = workspace,
                .num_threads = predictor.num_threads(),
                .poll_interrupt = poll_python_signals};
    out.num_enough = add_point_masks({ctx, crops, rules, crop.box, crop.orig_hw}, coords, records);
  }
  out.scores = make_array<float>({static_cast<std::int64_t>(records.size())});
  out.boxes = make_array<std::int64_t>({static_cast<std::int64_t>(records.size()), 4});
  std::int64_t* corner = out.boxes.mutable_data();
  for (std::size_t i = 0; i < records.size(); ++i) {
    const PixelBox& box = records[i].box;
    out.counts.append(counts_array(records[i].segmentation));
    out.scores.mutable_data()[i] = records[i].predicted_iou;
    *corner++ = box.x0 + crop.box.x0;
    *corner++ = box.y0 + crop.box.y0;
    *corner++ = box.x1 + crop.box.x0;
    *corner++ = box.y1 + crop.box.y0;
  }
  return out;
}

}  // namespace

void register_mask_generator(py::module_& m) {
  py::classh<BoundMaskGenerator>(m, "MaskGenerator")
      .def(py::init([](std::shared_ptr<const Model> model, int num_threads, const py::dict& options,
                       const std::optional<std::vector<Array<double>>>& point_grids,
                       bool multimask_output, bool use_m2m, std::optional<double> mask_threshold,
                       bool limited, bool hq_token_only) {
             return std::make_unique<BoundMaskGenerator>(
                 std::move(model), num_threads, generator_config(options, point_grids, limited),
                 CropOptions{.multimask_output = multimask_output,
                             .hq_token_only = hq_token_only,
                             .use_m2m = use_m2m,
                             .mask_threshold = mask_threshold});
           }),
           py::arg("model"), py::arg("num_threads"), py::arg("options"),
           py::arg("point_grids") = py::none(), py::arg("multimask_output") = true,
           py::arg("use_m2m") = false, py::arg("mask_threshold") = py::none(),
           py::arg("limited") = true, py::arg("hq_token_only") = false)
      .def_property(
          "max_region_area",
          [](const BoundMaskGenerator& self) { return self.crop_options.max_region_area; },
          [](BoundMaskGenerator& self, double area) {
            const InUse guard(self.busy, "max_region_area");
            self.crop_options.max_region_area = area;
          })
      .def("generate", &BoundMaskGenerator::generate, py::arg("image"),
           py::arg("progress") = py::none())
      .def("generate_encoded", &BoundMaskGenerator::generate_encoded, py::arg("embeddings"),
           py::arg("orig_hw"), py::arg("progress") = py::none());
  py::classh<PointMasks>(m, "PointMasks")
      .def_readonly("counts", &PointMasks::counts)
      .def_readonly("scores", &PointMasks::scores)
      .def_readonly("boxes", &PointMasks::boxes)
      .def_readonly("num_enough", &PointMasks::num_enough);
  // By the rules of transformers: points in the network's input, stability above its bound.
  m.def(
      "point_masks",
      [](ImagePredictor& predictor, const Array<double>& points,
         std::array<std::int64_t, 4> crop_box, Pair orig_hw, Pair input_hw, double pred_iou_thresh,
         double stability_score_thresh, double stability_score_offset, double mask_threshold) {
        const auto [x0, y0, x1, y1] = crop_box;
        return point_masks(
            predictor, points,
            {{x0, y0, x1, y1}, {orig_hw.first, orig_hw.second}, {input_hw.first, input_hw.second}},
            {.points_per_batch = std::max<std::int64_t>(points.shape(0), 1),
             .pred_iou_thresh = pred_iou_thresh,
             .stability_score_thresh = stability_score_thresh,
             .stability_score_offset = stability_score_offset,
             .above_stability = true},
            mask_threshold);
      },
      py::arg("predictor"), py::arg("points"), py::kw_only(), py::arg("crop_box"),
      py::arg("orig_hw"), py::arg("input_hw"), py::arg("pred_iou_thresh"),
      py::arg("stability_score_thresh"), py::arg("stability_score_offset"),
      py::arg("mask_threshold"));
}

}  // namespace sam_rlx
