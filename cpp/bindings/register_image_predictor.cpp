#include <pybind11/stl.h>

#include "bindings/embeddings.h"
#include "bindings/image_array.h"
#include "bindings/mask_arrays.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "predictors/image/image_predictor.h"

namespace sam_rlx {
namespace {

using Coordinates = std::optional<Array<double>>;
using Labels = std::optional<Array<std::int32_t>>;
using Masks = std::optional<Array<float>>;
using Pair = std::pair<std::int64_t, std::int64_t>;

std::optional<Pair> pair_of(const std::optional<Size>& size) {
  if (!size) return std::nullopt;
  return Pair{size->height, size->width};
}

void check_batch(PromptBatch& prompts, bool& known, std::int64_t batch, const char* where) {
  if (known && batch != prompts.batch) {
    fail(where, std::to_string(prompts.batch) + " prompt sets", std::to_string(batch));
  }
  prompts.batch = batch;
  known = true;
}

void add_points(PromptBatch& prompts, bool& known, const Coordinates& coords,
                const Labels& labels) {
  if (!coords && !labels) return;
  if (!coords || !labels) {
    fail("point_labels", "points and labels together", coords ? "points alone" : "labels alone");
  }
  if (coords->ndim() != 3 || coords->shape(2) != 2) {
    fail("point_coords", "shape (B, N, 2)", shape_of(*coords, "point_coords").str());
  }
  if (labels->ndim() != 2 || labels->shape(0) != coords->shape(0) ||
      labels->shape(1) != coords->shape(1)) {
    fail("point_labels", "shape " + Shape{coords->shape(0), coords->shape(1)}.str(),
         shape_of(*labels, "point_labels").str());
  }
  check_batch(prompts, known, coords->shape(0), "point_coords");
  prompts.num_points = coords->shape(1);
  prompts.point_coords = coords->data();
  prompts.point_labels = labels->data();
}

PromptBatch prompt_batch(const ImagePredictor& predictor, const Coordinates& coords,
                         const Labels& labels, const Coordinates& boxes, const Masks& mask_input) {
  PromptBatch prompts;
  bool known = false;
  add_points(prompts, known, coords, labels);
  if (boxes) {
    if (boxes->ndim() != 2 || boxes->shape(1) != 4) {
      fail("boxes", "shape (B, 4)", shape_of(*boxes, "boxes").str());
    }
    check_batch(prompts, known, boxes->shape(0), "boxes");
    prompts.boxes = boxes->data();
  }
  if (mask_input) {
    const std::int64_t side = predictor.model().info().mask_side;
    const Shape found = shape_of(*mask_input, "mask_input");
    if (found.rank() != 3 || found[1] != side || found[2] != side) {
      fail("mask_input", "shape (B, " + std::to_string(side) + ", " + std::to_string(side) + ")",
           found.str());
    }
    check_batch(prompts, known, found[0], "mask_input");
    prompts.mask_input = {mask_input->data(), found};
  }
  if (!known) prompts.batch = 1;  // a mask of the whole image
  return prompts;
}

// Prompts as Python gives them.
struct PromptArrays {
  Coordinates coords;
  Labels labels;
  Coordinates boxes;
  Masks mask_input;
  PromptRules rules = {};
};

// What the decoder gives.
struct LowResPrediction {
  py::array_t<float> low_res_masks;    // (B, K, S, S) logits
  py::array_t<float> iou_predictions;  // (B, K)
};
struct ImagePrediction {
  py::object masks;  // (B, K, H, W), bool or logits
  py::array_t<float> iou_predictions, low_res_masks;
};

struct Wanted {
  bool multimask_output = true, hq_token_only = false;
};

LowResPrediction decode(ImagePredictor& predictor, const PromptArrays& arrays, Frame frame,
                        const Wanted& wanted) {
  const PromptBatch prompts =
      prompt_batch(predictor, arrays.coords, arrays.labels, arrays.boxes, arrays.mask_input);
  predictor.check_prompts(prompts, arrays.rules);
  const std::int64_t count = predictor.num_masks(wanted.multimask_output, wanted.hq_token_only);
  const std::int64_t side = predictor.model().info().mask_side;
  LowResPrediction out{make_array<float>({prompts.batch, count, side, side}),
                       make_array<float>({prompts.batch, count})};
  const View low_res = view_of(out.low_res_masks), iou = view_of(out.iou_predictions);
  const GilRelease release;
  predictor.decode(prompts, {.frame = frame,
                             .multimask_output = wanted.multimask_output,
                             .hq_token_only = wanted.hq_token_only,
                             .iou_threshold = std::nullopt,
                             .low_res = low_res,
                             .iou = iou});
  return out;
}

void set_image(ImagePredictor& predictor, const py::array& image) {
  const ImageArray pixels(image);
  const GilRelease release;
  predictor.set_image(pixels.view());
}

void set_input(ImagePredictor& predictor, const Array<float>& pixel_values,
               std::pair<std::int64_t, std::int64_t> orig_hw) {
  const ConstView pixels = view_of(pixel_values, "pixel_values");
  const GilRelease release;
  predictor.set_input(pixels, {orig_hw.first, orig_hw.second});
}

// low_res (B, K, S, S) -> (B, K, H, W), bool or logits.
py::object upscale(ImagePredictor& predictor, ConstView low_res, const UpscaleOptions& options,
                   bool return_logits) {
  const MaskGeometry geometry = predictor.mask_geometry();
  const Shape shape{low_res.shape[0], low_res.shape[1], geometry.height, geometry.width};
  if (return_logits) {
    auto out = make_array<float>(shape);
    const View view = view_of(out);
    const GilRelease release;
    predictor.upscale(low_res, options, view);
    return out;
  }
  auto out = make_array<bool>(shape);
  auto* const pixels = reinterpret_cast<std::uint8_t*>(out.mutable_data());
  const GilRelease release;
  predictor.binarize(low_res, options, pixels);
  return out;
}

ImagePrediction predict(ImagePredictor& predictor, const PromptArrays& prompts, Frame frame,
                        const Wanted& wanted, bool return_logits, const UpscaleOptions& options) {
  LowResPrediction decoded = decode(predictor, prompts, frame, wanted);
  const View logits = view_of(decoded.low_res_masks);
  py::object masks = upscale(predictor, logits, options, return_logits);
  predictor.finish_low_res_(logits);
  return {std::move(masks), std::move(decoded.iou_predictions), std::move(decoded.low_res_masks)};
}

// The two halves of `predict`, for callers that have one of them.
template <Frame frame>
LowResPrediction decode_in(ImagePredictor& predictor, Coordinates coords, Labels labels,
                           Coordinates boxes, Masks mask_input, bool multimask_output,
                           bool hq_token_only) {
  return decode(predictor,
                {std::move(coords), std::move(labels), std::move(boxes), std::move(mask_input),
                 PromptRules::kUpstream},
                frame, {multimask_output, hq_token_only});
}
py::object upscale_logits(ImagePredictor& predictor, const Array<float>& low_res,
                          bool return_logits) {
  const std::int64_t side = predictor.model().info().mask_side;
  const ConstView logits = view_of(low_res, "low_res");
  if (logits.shape.rank() != 4 || logits.shape[2] != side || logits.shape[3] != side) {
    fail("low_res", "shape (B, K, " + std::to_string(side) + ", " + std::to_string(side) + ")",
         logits.shape.str());
  }
  return upscale(predictor, logits, {}, return_logits);
}

py::array features(const ImagePredictor& predictor, const std::optional<MaskArray>& mask) {
  const std::optional<Size> size = predictor.orig_hw();
  if (mask && size) {
    const Shape expected{size->height, size->width};
    if (shape_of(*mask, "mask") != expected) {
      fail("mask", "shape " + expected.str() + " as the image", shape_of(*mask, "mask").str());
    }
  }
  return to_numpy(predictor.features(mask ? mask_bytes(*mask) : nullptr));
}

}  // namespace

void register_image_predictor(py::module_& m) {
  // What layers compute, for parity reports and tests: [(path, array)], emptied by each call.
  py::classh<Trace>(m, "Trace").def(py::init<>()).def("take", [](Trace& self) {
    py::list records;
    for (auto& [path, value] : self.records) {
      records.append(py::make_tuple(path, to_numpy(std::move(value))));
    }
    self.records.clear();
    return records;
  });
  py::classh<LowResPrediction>(m, "LowResPrediction")
      .def_readonly("low_res_masks", &LowResPrediction::low_res_masks)
      .def_readonly("iou_predictions", &LowResPrediction::iou_predictions);
  py::classh<ImagePrediction>(m, "ImagePrediction")
      .def_readonly("masks", &ImagePrediction::masks)
      .def_readonly("iou_predictions", &ImagePrediction::iou_predictions)
      .def_readonly("low_res_masks", &ImagePrediction::low_res_masks);
  py::classh<ImagePredictor>(m, "ImagePredictor")
      .def(py::init(
               [](std::shared_ptr<const Model> model, int num_threads, const std::string& resize) {
                 auto predictor = std::make_unique<ImagePredictor>(std::move(model), num_threads,
                                                                   resize_named(resize));
                 predictor->set_poll_interrupt(poll_python_signals);
                 return predictor;
               }),
           py::arg("model"), py::arg("num_threads") = 0,
           py::arg("resize") = resize_name(ImageOptions().resize))
      .def_property_readonly("num_threads", &ImagePredictor::num_threads)
      .def("num_masks", &ImagePredictor::num_masks, py::arg("multimask_output"),
           py::arg("hq_token_only") = false)
      .def("set_image", set_image, py::arg("image"))
      .def("set_input", set_input, py::arg("pixel_values"), py::arg("orig_hw"))
      .def_property_readonly("image_embeddings",
                             [](const ImagePredictor& x) { return to_numpy(x.image_embeddings()); })
      .def("features", features, py::arg("mask") = py::none())
      .def_property_readonly("orig_hw",
                             [](const ImagePredictor& x) { return pair_of(x.orig_hw()); })
      .def_property_readonly("input_hw",
                             [](const ImagePredictor& x) { return pair_of(x.input_hw()); })
      .def("set_image_embeddings", set_image_embeddings<ImagePredictor>, py::arg("embeddings"),
           py::arg("orig_hw"))
      .def("reset_image", &ImagePredictor::reset_image)
      .def("set_trace", &ImagePredictor::set_trace, py::arg("trace").none(true),
           py::keep_alive<1, 2>())
      .def("decode", decode_in<Frame::kOriginal>, py::arg("point_coords") = py::none(),
           py::arg("point_labels") = py::none(), py::arg("boxes") = py::none(),
           py::arg("mask_input") = py::none(), py::arg("multimask_output") = true,
           py::arg("hq_token_only") = false)
      .def("decode_model_frame", decode_in<Frame::kModel>, py::arg("point_coords") = py::none(),
           py::arg("point_labels") = py::none(), py::arg("boxes") = py::none(),
           py::arg("mask_input") = py::none(), py::arg("multimask_output") = true,
           py::arg("hq_token_only") = false)
      .def("upscale", upscale_logits, py::arg("low_res"), py::arg("return_logits") = false)
      .def(
          "predict",
          [](ImagePredictor& predictor, Coordinates coords, Labels labels, Coordinates boxes,
             Masks mask_input, bool multimask_output, bool return_logits, bool as_upstream,
             bool model_frame, double max_hole_area, double max_sprinkle_area,
             std::optional<float> mask_threshold, bool hq_token_only) {
            const PromptRules rules = as_upstream ? PromptRules::kUpstream : PromptRules::kOurs;
            return predict(predictor,
                           {std::move(coords), std::move(labels), std::move(boxes),
                            std::move(mask_input), rules},
                           model_frame ? Frame::kModel : Frame::kOriginal,
                           {multimask_output, hq_token_only}, return_logits,
                           {max_hole_area, max_sprinkle_area, mask_threshold});
          },
          py::arg("point_coords"), py::arg("point_labels"), py::arg("boxes"), py::arg("mask_input"),
          py::arg("multimask_output"), py::arg("return_logits"), py::kw_only(),
          py::arg("as_upstream") = false, py::arg("model_frame") = false,
          py::arg("max_hole_area") = 0.0, py::arg("max_sprinkle_area") = 0.0,
          py::arg("mask_threshold") = py::none(), py::arg("hq_token_only") = false);
}

}  // namespace sam_rlx
