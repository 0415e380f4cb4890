#include <pybind11/stl.h>

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
}

}  // namespace sam_rlx
