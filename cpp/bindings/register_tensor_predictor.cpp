#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "predictors/image/tensor_predictor.h"

namespace sam_rlx {
namespace {

// Prompts as Python gives them: see TensorPrompts.
struct PromptTensors {
  std::optional<Array<double>> coords;        // (B, P, N, 2)
  std::optional<Array<std::int32_t>> labels;  // (B, P, N)
  std::optional<Array<double>> boxes;         // (B, P, 4)
  std::optional<Array<float>> masks;          // (B, S, S)
};

void require(bool fits, const char* where, const std::string& expected, const Shape& found) {
  if (!fits) fail(where, "shape " + expected, found.str());
}

TensorPrompts prompts_of(const TensorPredictor& predictor, const PromptTensors& tensors) {
  TensorPrompts out;
  if (tensors.coords.has_value() != tensors.labels.has_value()) {
    fail("labels", "points and labels together", tensors.coords ? "points alone" : "labels alone");
  }
  if (tensors.coords) {
    const Shape coords = shape_of(*tensors.coords, "points");
    require(coords.rank() == 4 && coords[3] == 2, "points", "(B, P, N, 2)", coords);
    const Shape expected{coords[0], coords[1], coords[2]};
    const Shape labels = shape_of(*tensors.labels, "labels");
    require(labels == expected, "labels", expected.str(), labels);
    out = {.images = coords[0], .sets = coords[1], .num_points = coords[2]};
    out.point_coords = tensors.coords->data();
    out.point_labels = tensors.labels->data();
  }
  if (tensors.boxes) {
    const Shape boxes = shape_of(*tensors.boxes, "boxes");
    require(boxes.rank() == 3 && boxes[2] == 4, "boxes", "(B, P, 4)", boxes);
    const bool fits = !tensors.coords || (boxes[0] == out.images && boxes[1] == out.sets);
    require(fits, "boxes", Shape{out.images, out.sets, 4}.str(), boxes);
    out.images = boxes[0];
    out.sets = boxes[1];
    out.boxes = tensors.boxes->data();
  }
  if (tensors.masks) {
    const std::int64_t side = predictor.model().info().mask_side;
    const Shape masks = shape_of(*tensors.masks, "masks");
    const bool fits = masks.rank() == 3 &&
                      (predictor.has_object_scores() || (masks[1] == side && masks[2] == side));
    require(fits, "masks", Shape{out.images, side, side}.str(), masks);
    out.masks = {tensors.masks->data(), masks};
  }
  return out;
}

py::tuple encode(TensorPredictor& predictor, const Array<float>& pixel_values, bool no_mem_embed,
                 bool all_maps) {
  const ConstView pixels = sam_rlx::view_of(pixel_values, "pixel_values");
  const std::int64_t side = predictor.model().info().img_size;
  const bool fits = pixels.shape.rank() == 4 && pixels.shape[1] == 3 && pixels.shape[2] == side &&
                    pixels.shape[3] == side;
  require(fits, "pixel_values",
          "(B, 3, " + std::to_string(side) + ", " + std::to_string(side) + ")", pixels.shape);
  std::vector<Tensor> maps;
  {
    const GilRelease release;
    maps = predictor.encode(pixels, {.no_mem_embed = no_mem_embed, .all_maps = all_maps});
  }
  return to_numpy(std::move(maps));
}

// Sparse embeddings (B, P, T, C), or none, and dense ones.
py::tuple prompt_embeddings(TensorPredictor& predictor, const PromptTensors& tensors) {
  const TensorPrompts prompts = prompts_of(predictor, tensors);
  py::object sparse = py::none();
  Tensor dense;
  if (prompts.point_coords != nullptr || prompts.boxes != nullptr) {
    auto tokens = make_array<float>(
        {prompts.images, prompts.sets, predictor.num_tokens(prompts), predictor.embed_dim()});
    const View view = sam_rlx::view_of(tokens);
    sparse = tokens;
    const GilRelease release;
    predictor.embed_prompts(prompts, view);
    dense = predictor.dense_embeddings(prompts);
  } else {
    const GilRelease release;
    dense = predictor.dense_embeddings(prompts);
  }
  return py::make_tuple(sparse, to_numpy(std::move(dense)));
}

void check_maps(const TensorPredictor& predictor, const std::vector<ConstView>& maps,
                std::int64_t images) {
  const std::vector<Shape> expected = predictor.map_shapes(false);
  const bool is_short = !predictor.has_object_scores() && maps.size() == 1;
  if (maps.size() != expected.size() && !is_short) {
    fail("maps", std::to_string(expected.size()) + " arrays", std::to_string(maps.size()));
  }
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const Shape shape{images, expected[i][0], expected[i][1], expected[i][2]};
    require(maps[i].shape == shape, "maps", shape.str(), maps[i].shape);
  }
}

// (masks (B, P, M, S, S), scores (B, P, K), object scores (B, P, 1) or None)
py::tuple decode(TensorPredictor& predictor, const std::vector<Array<float>>& maps,
                 const PromptTensors& tensors, bool multimask_output, bool hq_token_only) {
  TensorPrompts prompts = prompts_of(predictor, tensors);
  std::vector<ConstView> views;
  for (const Array<float>& map : maps) views.push_back(sam_rlx::view_of(map, "maps"));
  const bool has_sets = tensors.coords || tensors.boxes;
  if (!has_sets && !views.empty() && views[0].shape.rank() > 0) prompts.images = views[0].shape[0];
  check_maps(predictor, views, prompts.images);
  if (prompts.masks && prompts.masks.shape[0] != prompts.images) {
    fail("masks", std::to_string(prompts.images) + " masks",
         std::to_string(prompts.masks.shape[0]));
  }
  const std::int64_t side = predictor.model().info().mask_side;
  const std::int64_t count = predictor.num_masks(multimask_output, hq_token_only);
  auto masks = make_array<float>({prompts.images, prompts.sets, count, side, side});
  auto scores =
      make_array<float>({prompts.images, prompts.sets, predictor.num_scores(multimask_output)});
  py::object object_scores = py::none();
  TensorJob job{.multimask_output = multimask_output,
                .hq_token_only = hq_token_only,
                .masks = sam_rlx::view_of(masks),
                .iou_scores = sam_rlx::view_of(scores),
                .object_scores = {}};
  if (predictor.has_object_scores()) {
    auto array = make_array<float>({prompts.images, prompts.sets, 1});
    job.object_scores = sam_rlx::view_of(array);
    object_scores = array;
  }
  {
    const GilRelease release;
    predictor.decode(views, prompts, job);
  }
  return py::make_tuple(masks, scores, object_scores);
}

}  // namespace

void register_tensor_predictor(py::module_& m) {
  using Coordinates = std::optional<Array<double>>;
  using Labels = std::optional<Array<std::int32_t>>;
  using Masks = std::optional<Array<float>>;
  py::classh<TensorPredictor>(m, "TensorPredictor")
      .def(py::init([](std::shared_ptr<const Model> model, int num_threads) {
             auto predictor = TensorPredictor::make(std::move(model), num_threads);
             predictor->set_poll_interrupt(poll_python_signals);
             return predictor;
           }),
           py::arg("model"), py::arg("num_threads") = 0)
      .def("encode", encode, py::arg("pixel_values"), py::arg("no_mem_embed") = true,
           py::arg("all_maps") = false)
      .def("position_encodings",
           [](const TensorPredictor& x) { return to_numpy(x.position_encodings()); })
      .def(
          "prompt_embeddings",
          [](TensorPredictor& predictor, Coordinates points, Labels labels, Coordinates boxes,
             Masks masks) {
            return prompt_embeddings(predictor, {std::move(points), std::move(labels),
                                                 std::move(boxes), std::move(masks)});
          },
          py::arg("points"), py::arg("labels"), py::arg("boxes"), py::arg("masks"))
      .def(
          "decode",
          [](TensorPredictor& predictor, const std::vector<Array<float>>& maps, Coordinates points,
             Labels labels, Coordinates boxes, Masks masks, bool multimask_output,
             bool hq_token_only) {
            return decode(
                predictor, maps,
                {std::move(points), std::move(labels), std::move(boxes), std::move(masks)},
                multimask_output, hq_token_only);
          },
          py::arg("maps"), py::arg("points"), py::arg("labels"), py::arg("boxes"), py::arg("masks"),
          py::arg("multimask_output"), py::arg("hq_token_only") = false);
}

}  // namespace sam_rlx
