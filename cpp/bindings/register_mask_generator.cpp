#include <pybind11/stl.h>

#include "bindings/gil.h"
#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "bindings/register.h"
#include "predictors/image/sam_crop_predictor.h"

namespace sam_rlx {
namespace {

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
    predictor.set_poll_interrupt(poll_python_signals);
  }

  py::list generate(const py::array& image, const std::optional<py::function>& progress) {
    const InUse guard(busy, "generate");
    const ImageArray pixels(image);
    Progress report;
    if (progress) {
      report = [&](std::int64_t done, std::int64_t total) {
        call_python([&] {
          return PyObject_CallFunction(progress->ptr(), "LL", static_cast<long long>(done),
                                       static_cast<long long>(total));
        });
      };
    }
    std::vector<MaskRecord> records;
    {
      const GilRelease release;
      SamCropPredictor crops(predictor, crop_options);
      Workspace workspace;  // the predictor's own is in use while it decodes
      Context ctx{.kernels = predictor.model().kernels(),
                  .workspace = workspace,
                  .num_threads = predictor.num_threads(),
                  .poll_interrupt = poll_python_signals};
      records = generator.generate(ctx, pixels.view(), crops, report);
    }
    return record_dicts(records);
  }
};

}  // namespace

void register_mask_generator(py::module_& m) {
  py::classh<BoundMaskGenerator>(m, "MaskGenerator")
      .def(py::init([](std::shared_ptr<const Model> model, int num_threads, const py::dict& options,
                       const std::optional<std::vector<Array<double>>>& point_grids,
                       bool multimask_output, bool use_m2m, std::optional<double> mask_threshold) {
             return std::make_unique<BoundMaskGenerator>(
                 std::move(model), num_threads, generator_config(options, point_grids),
                 CropOptions{multimask_output, use_m2m, mask_threshold});
           }),
           py::arg("model"), py::arg("num_threads"), py::arg("options"),
           py::arg("point_grids") = py::none(), py::arg("multimask_output") = true,
           py::arg("use_m2m") = false, py::arg("mask_threshold") = py::none())
      .def_property(
          "max_region_area",
          [](const BoundMaskGenerator& self) { return self.crop_options.max_region_area; },
          [](BoundMaskGenerator& self, double area) {
            const InUse guard(self.busy, "max_region_area");
            self.crop_options.max_region_area = area;
          })
      .def("generate", &BoundMaskGenerator::generate, py::arg("image"),
           py::arg("progress") = py::none());
}

}  // namespace sam_rlx
