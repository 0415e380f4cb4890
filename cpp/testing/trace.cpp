#include <pybind11/stl.h>

#include <array>

#include "bindings/image_array.h"
#include "bindings/numpy.h"
#include "core/parallel.h"
#include "loading/network.h"
#include "predictors/concept/concept_predictor.h"
#include "predictors/image/image_predictor.h"
#include "testing/register.h"

namespace sam_rlx {
namespace {

struct TraceOptions {
  std::optional<Array<double>> point_coords;  // (N, 2)
  std::optional<Array<std::int32_t>> point_labels;
  std::optional<Array<double>> box;        // (4,)
  std::optional<Array<float>> mask_input;  // (1, S, S)
  bool multimask_output = true;
};

// Every recorded tensor of one image and one prompt set: [(path, array), ...].
py::list run_trace(const std::shared_ptr<const Model>& model, const py::array& image,
                   const TraceOptions& options, int num_threads) {
  Trace trace;
  ImagePredictor predictor(model, num_threads);
  predictor.set_trace(&trace);
  const ImageArray pixels(image);
  predictor.set_image(pixels.view());
  PromptBatch prompts{.batch = 1};
  if (options.point_coords) {
    prompts.num_points = options.point_coords->shape(0);
    prompts.point_coords = options.point_coords->data();
    prompts.point_labels = options.point_labels.value().data();
  }
  if (options.box) prompts.boxes = options.box->data();
  if (options.mask_input) prompts.mask_input = view_of(*options.mask_input, "mask_input");
  const std::int64_t count = predictor.num_masks(options.multimask_output);
  const std::int64_t side = predictor.mask_geometry().low_height;
  Tensor low_res({1, count, side, side});
  Tensor iou({1, count});
  predictor.decode(prompts,
                   {.multimask_output = options.multimask_output, .low_res = low_res, .iou = iou});
  py::list records;
  for (auto& [path, value] : trace.records) {
    records.append(py::make_tuple(path, to_numpy(std::move(value))));
  }
  return records;
}

// Blocks of memory that each of `calls` rounds of one image and `batch` clicks took.
std::vector<std::int64_t> allocations(const std::string& path, const py::array& image,
                                      std::int64_t batch, int num_threads, int calls,
                                      std::optional<std::string> precision) {
  ImagePredictor predictor(Model::load(path, {.precision = std::move(precision)}), num_threads);
  const ImageArray pixels(image);
  const std::vector<double> points(static_cast<std::size_t>(2 * batch), 5.0);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(batch), 1);
  const PromptBatch prompts{.batch = batch,
                            .num_points = 1,
                            .point_coords = points.data(),
                            .point_labels = labels.data()};
  const std::int64_t count = predictor.num_masks(true);
  const std::int64_t side = predictor.model().info().mask_side;
  Tensor low_res({batch, count, side, side});
  Tensor iou({batch, count});
  std::vector<std::int64_t> taken;
  for (int i = 0; i < calls; ++i) {
    const std::int64_t before = allocation_count();
    predictor.set_image(pixels.view());
    predictor.decode(prompts, {.iou_threshold = std::nullopt, .low_res = low_res, .iou = iou});
    taken.push_back(allocation_count() - before);
  }
  return taken;
}

// The parallel loops of one click (x, y) and of its masks in the image's size, in order, each
// (threads asked for, threads that got work, work, ranges); and the click's logits (K, S, S).
py::tuple click_loops(const std::shared_ptr<const Model>& model, const py::array& image, double x,
                      double y, int num_threads) {
  ImagePredictor predictor(model, num_threads);
  const ImageArray pixels(image);
  predictor.set_image(pixels.view());
  const std::array<double, 2> point{x, y};
  const std::int32_t label = 1;
  const PromptBatch prompts{
      .batch = 1, .num_points = 1, .point_coords = point.data(), .point_labels = &label};
  const std::int64_t count = predictor.num_masks(true);
  const MaskGeometry geometry = predictor.mask_geometry();
  Tensor low_res({1, count, geometry.low_height, geometry.low_width});
  Tensor iou({1, count});
  std::vector<std::uint8_t> masks(
      static_cast<std::size_t>(count * geometry.height * geometry.width));
  std::vector<LoopRecord> records;
  record_loops(&records);
  predictor.decode(prompts, {.low_res = low_res, .iou = iou});
  predictor.binarize(low_res.view(), {}, masks.data());
  record_loops(nullptr);
  py::list loops;
  for (const LoopRecord& r : records) {
    loops.append(py::make_tuple(r.asked, r.threads, r.work, r.ranges));
  }
  return py::make_tuple(loops, to_numpy(std::move(low_res)));
}

// Blocks of memory that each of `calls` rounds of one image and texts (N, L) took, and how many
// of them are results.
std::vector<std::pair<std::int64_t, std::int64_t>> concept_allocations(
    const std::string& path, const py::array& image, const Array<std::int64_t>& ids,
    double threshold, int num_threads, int calls) {
  ConceptPredictor predictor(Model::load(path, {}), num_threads, Resize::kFloat, /*clicks=*/false);
  const ImageArray pixels(image);
  std::vector<std::uint8_t> masks;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (int i = 0; i < calls; ++i) {
    const std::int64_t before = allocation_count();
    predictor.set_image(pixels.view());
    std::vector<ConceptFindings> found =
        predictor.find({.texts = {ids.data(), ids.shape(0), ids.shape(1)}, .options = {threshold}});
    std::int64_t results = 0;
    for (const ConceptFindings& text : found) {
      const auto kept = static_cast<std::int64_t>(text.queries.size());
      masks.resize(static_cast<std::size_t>(kept * image.shape(0) * image.shape(1)));
      predictor.binarize(*predictor.orig_hw(), text.low_res, masks.data());
      results += 3;
    }
    taken.emplace_back(allocation_count() - before, results);
  }
  return taken;
}

// The formats in which layers of a checkpoint's network, given by their paths, would hold weights.
std::vector<std::string> weight_formats(const std::string& checkpoint, const std::string& precision,
                                        const std::string& isa,
                                        const std::vector<std::string>& paths) {
  const auto model = Model::load(checkpoint, {.isa = isa});
  const WeightRule rule = std::visit(
      [&](const auto& config) {
        using Config = std::decay_t<decltype(config)>;
        return weight_rule<Config>(weight_format_named(precision), model->kernels());
      },
      model->config());
  std::vector<std::string> names;
  for (const std::string& path : paths) names.emplace_back(weight_format_name(rule.of(path)));
  return names;
}

}  // namespace

void register_trace(py::module_& m) {
  m.def("allocations", allocations, py::arg("path"), py::arg("image"), py::arg("batch"),
        py::arg("num_threads"), py::arg("calls"), py::arg("precision") = py::none());
  m.attr("min_thread_work") = kMinThreadWork;
  m.def(
      "click_loops",
      [](const std::string& path, const py::array& image, double x, double y, int num_threads,
         std::optional<std::string> precision) {
        return click_loops(Model::load(path, {.precision = std::move(precision)}), image, x, y,
                           num_threads);
      },
      py::arg("path"), py::arg("image"), py::arg("x"), py::arg("y"), py::arg("num_threads"),
      py::arg("precision") = py::none());
  m.def("weight_formats", weight_formats, py::arg("checkpoint"), py::arg("precision"),
        py::arg("isa"), py::arg("paths"));
  m.def("concept_allocations", concept_allocations, py::arg("path"), py::arg("image"),
        py::arg("ids"), py::arg("threshold"), py::arg("num_threads"), py::arg("calls"));
  m.def(
      "trace",
      [](const std::string& path, const py::array& image, std::optional<Array<double>> point_coords,
         std::optional<Array<std::int32_t>> point_labels, std::optional<Array<double>> box,
         std::optional<Array<float>> mask_input, bool multimask_output,
         std::optional<std::string> isa, int num_threads, std::optional<std::int64_t> image_size) {
        const auto model = Model::load(path, {.isa = std::move(isa), .image_size = image_size});
        return run_trace(model, image,
                         {std::move(point_coords), std::move(point_labels), std::move(box),
                          std::move(mask_input), multimask_output},
                         num_threads);
      },
      py::arg("path"), py::arg("image"), py::kw_only(), py::arg("point_coords") = py::none(),
      py::arg("point_labels") = py::none(), py::arg("box") = py::none(),
      py::arg("mask_input") = py::none(), py::arg("multimask_output") = true,
      py::arg("isa") = py::none(), py::arg("num_threads") = 1, py::arg("image_size") = py::none());
}

}  // namespace sam_rlx
