#include <pybind11/stl.h>

#include <atomic>

#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "bindings/register.h"
#include "predictors/sam_crop_predictor.h"

namespace sam_rlx {
namespace {

// Everything mode with a predictor of its own.
struct BoundMaskGenerator {
  ImagePredictor predictor;
  MaskGenerator generator;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;

  BoundMaskGenerator(std::shared_ptr<const Model> model, int num_threads,
                     const MaskGeneratorConfig& config)
      : predictor(std::move(model), num_threads), generator(config) {
    predictor.set_poll_interrupt(poll_python_signals);
  }

  py::list generate(const py::array& image, const std::optional<py::function>& progress) {
    const ImageArray pixels(image);
    const InUse guard(busy, "generate");
    Progress report;
    if (progress) {
      report = [&](std::int64_t done, std::int64_t total) {
        const py::gil_scoped_acquire gil;
        (*progress)(done, total);
      };
    }
    std::vector<MaskRecord> records;
    {
      const py::gil_scoped_release release;
      SamCropPredictor crops(predictor);
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
                       const std::optional<std::vector<Array<double>>>& point_grids) {
             return std::make_unique<BoundMaskGenerator>(std::move(model), num_threads,
                                                         generator_config(options, point_grids));
           }),
           py::arg("model"), py::arg("num_threads"), py::arg("options"),
           py::arg("point_grids") = py::none())
      .def("generate", &BoundMaskGenerator::generate, py::arg("image"),
           py::arg("progress") = py::none());
}

}  // namespace sam_rlx
