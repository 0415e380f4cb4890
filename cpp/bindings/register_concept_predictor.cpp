#include <pybind11/stl.h>

#include "bindings/embeddings.h"
#include "bindings/image_array.h"
#include "bindings/numpy.h"
#include "bindings/register.h"
#include "predictors/concept/concept_predictor.h"
#include "predictors/prompts.h"

namespace sam_rlx {
namespace {

using Ids = Array<std::int64_t>;
using Coordinates = std::optional<Array<double>>;
using Labels = std::optional<Array<std::int32_t>>;

sam3::TokenIds token_ids(const Ids& ids) {
  if (ids.ndim() != 2) fail("ids", "shape (N, L)", shape_of(ids, "ids").str());
  return {ids.data(), ids.shape(0), ids.shape(1)};
}

// Sets points or boxes of `width` numbers, with a label each.
struct Marks {
  std::int64_t count = 0;
  const double* values = nullptr;
  const std::int32_t* labels = nullptr;

  Marks(const char* where, const Coordinates& coords, const Labels& marks, std::int64_t width) {
    if (!coords && !marks) return;
    if (!coords || !marks || coords->ndim() != 2 || coords->shape(1) != width ||
        marks->ndim() != 1 || marks->shape(0) != coords->shape(0)) {
      fail(where, "(N, " + std::to_string(width) + ") with N labels", "other shapes");
    }
    check_prompt_numbers(where, {coords->data(), static_cast<std::size_t>(coords->size())});
    count = coords->shape(0);
    values = coords->data();
    labels = marks->data();
  }
};

// What was found for a text. Arrays can be taken out of it, so that no more than one copy is held.
struct FoundArrays {
  py::object queries, scores, boxes, low_res_masks;
  py::object raw = py::none();
};
struct RawArrays {
  py::array_t<float> pred_logits, pred_boxes, pred_masks, semantic_seg;
  float presence_logit_dec = 0.0F;
};

FoundArrays to_arrays(ConceptFindings&& found) {
  FoundArrays out{.queries = py::array_t<std::int64_t>(
                      static_cast<py::ssize_t>(found.queries.size()), found.queries.data()),
                  .scores = to_numpy(std::move(found.scores)),
                  .boxes = to_numpy(std::move(found.boxes)),
                  .low_res_masks = to_numpy(std::move(found.low_res))};
  if (found.raw) {
    RawDetections& raw = *found.raw;
    out.raw = py::cast(RawArrays{.pred_logits = to_numpy(std::move(raw.logits)),
                                 .pred_boxes = to_numpy(std::move(raw.boxes)),
                                 .pred_masks = to_numpy(std::move(raw.masks)),
                                 .semantic_seg = to_numpy(std::move(raw.semantic_seg)),
                                 .presence_logit_dec = raw.presence_logit});
  }
  return out;
}

using Tokens = std::vector<Array<float>>;

std::vector<ConstView> views_of(const Tokens& examples) {
  std::vector<ConstView> views;
  for (const Array<float>& tokens : examples) views.push_back(view_of(tokens, "examples"));
  return views;
}

struct FindOptions {
  ConceptOptions concept_options;
  Tokens examples;
  bool raw = false;
  bool fractions = false;
  std::optional<py::function> progress;
};

std::vector<FoundArrays> find(ConceptPredictor& predictor, const Ids& ids, const Marks& points,
                              const Marks& boxes, const FindOptions& options) {
  const std::vector<ConstView> examples = views_of(options.examples);
  ConceptRequest request{.texts = token_ids(ids),
                         .geometry = {.num_points = points.count,
                                      .num_boxes = boxes.count,
                                      .points = points.values,
                                      .point_labels = points.labels,
                                      .boxes = boxes.values,
                                      .box_labels = boxes.labels,
                                      .fractions = options.fractions},
                         .examples = examples,
                         .options = options.concept_options,
                         .raw = options.raw};
  if (options.progress) {
    request.progress = [&](std::int64_t done, std::int64_t total) {
      call_python([&] {
        return PyObject_CallFunction(options.progress->ptr(), "LL", static_cast<long long>(done),
                                     static_cast<long long>(total));
      });
    };
  }
  std::vector<ConceptFindings> found;
  {
    const GilRelease release;
    found = predictor.find(request);
  }
  std::vector<FoundArrays> out;
  for (ConceptFindings& text : found) out.push_back(to_arrays(std::move(text)));
  return out;
}

py::array_t<float> encode_examples(ConceptPredictor& predictor, const Coordinates& boxes,
                                   const Labels& box_labels, bool positions) {
  const Marks marks("boxes", boxes, box_labels, 4);
  Tensor tokens;
  {
    const GilRelease release;
    tokens = predictor.encode_examples({.num_boxes = marks.count,
                                        .boxes = marks.values,
                                        .box_labels = marks.labels,
                                        .box_positions = positions});
  }
  return to_numpy(std::move(tokens));
}

using Pair = std::pair<std::int64_t, std::int64_t>;

void set_concept_image(ConceptPredictor& predictor, const py::array& image,
                       std::optional<Pair> orig_hw) {
  const ImageArray pixels(image);
  std::optional<Size> size;
  if (orig_hw) size = {orig_hw->first, orig_hw->second};
  if (size) check_size("orig_hw", *size);
  const GilRelease release;
  predictor.set_image(pixels.view(), size);
}

void encode_text(ConceptPredictor& predictor, const Ids& ids) {
  const sam3::TokenIds texts = token_ids(ids);
  const GilRelease release;
  predictor.encode_text(texts);
}

// The image's size. Refuses a result that is not (K, H, W) for masks (K, S, S) of it.
Size check_masks(const ConceptPredictor& predictor, const Array<float>& low_res,
                 const py::array& out) {
  const Size hw = predictor.orig_hw().value_or(Size{});
  const bool fits = out.ndim() == 3 && low_res.ndim() == 3 && out.shape(0) == low_res.shape(0) &&
                    out.shape(1) == hw.height && out.shape(2) == hw.width;
  if (!fits) {
    fail("upscale: result",
         "(K, " + std::to_string(hw.height) + ", " + std::to_string(hw.width) + ") for K masks",
         "another shape");
  }
  return hw;
}

// low_res (K, S, S) logits -> out (K, H, W), in place: logits, or probabilities.
void upscale_concepts(ConceptPredictor& predictor, const Array<float>& low_res,
                      py::array_t<float, py::array::c_style>& out, bool probabilities) {
  const Size hw = check_masks(predictor, low_res, out);
  const ConstView masks = view_of(low_res, "low_res");
  const View result{out.mutable_data(), {out.shape(0), out.shape(1), out.shape(2)}};
  const auto values = probabilities ? MaskValues::kProbabilities : MaskValues::kLogits;
  const GilRelease release;
  predictor.upscale(hw, masks, values, result);
}

void binarize(ConceptPredictor& predictor, const Array<float>& low_res,
              py::array_t<bool, py::array::c_style>& out) {
  const Size hw = check_masks(predictor, low_res, out);
  const ConstView masks = view_of(low_res, "low_res");
  auto* const pixels = reinterpret_cast<std::uint8_t*>(out.mutable_data());
  const GilRelease release;
  predictor.binarize(hw, masks, pixels);
}

// Moves the embeddings for clicks out of an image.
py::tuple take_click_embeddings(ConceptImage& concept_image) {
  return to_numpy(std::exchange(concept_image.click_embeddings, {}));
}

Pair pair_of(Size size) { return {size.height, size.width}; }

}  // namespace

void register_concept_predictor(py::module_& m) {
  py::classh<ConceptImage>(m, "ConceptImage")
      .def_property_readonly("orig_hw", [](const ConceptImage& x) { return pair_of(x.orig_hw); })
      .def("take_click_embeddings", take_click_embeddings);
  py::classh<RawArrays>(m, "RawDetections")
      .def_readonly("pred_logits", &RawArrays::pred_logits)
      .def_readonly("pred_boxes", &RawArrays::pred_boxes)
      .def_readonly("presence_logit_dec", &RawArrays::presence_logit_dec)
      .def_readonly("pred_masks", &RawArrays::pred_masks)
      .def_readonly("semantic_seg", &RawArrays::semantic_seg);
  py::classh<FoundArrays>(m, "ConceptFindings")
      .def_readwrite("queries", &FoundArrays::queries)
      .def_readwrite("scores", &FoundArrays::scores)
      .def_readwrite("boxes", &FoundArrays::boxes)
      .def_readwrite("low_res_masks", &FoundArrays::low_res_masks)
      .def_readwrite("raw", &FoundArrays::raw);
  py::classh<ConceptPredictor>(m, "ConceptPredictor")
      .def(py::init([](std::shared_ptr<const Model> model, int num_threads,
                       const std::string& resize, bool clicks) {
             auto predictor = std::make_unique<ConceptPredictor>(std::move(model), num_threads,
                                                                 resize_named(resize), clicks);
             predictor->set_poll_interrupt(poll_python_signals);
             return predictor;
           }),
           py::arg("model"), py::arg("num_threads") = 0,
           py::arg("resize") = resize_name(ImageOptions().resize), py::arg("clicks") = false)
      .def_property_readonly("num_threads", &ConceptPredictor::num_threads)
      .def("set_image", set_concept_image, py::arg("image"), py::arg("orig_hw") = py::none())
      .def_property_readonly("concept_image", &ConceptPredictor::concept_image)
      .def("set_trace", &ConceptPredictor::set_trace, py::arg("trace").none(true),
           py::keep_alive<1, 2>())
      .def("set_concept_image", &ConceptPredictor::set_concept_image, py::arg("concept_image"))
      .def_property_readonly("orig_hw",
                             [](const ConceptPredictor& x) {
                               const std::optional<Size> hw = x.orig_hw();
                               return hw ? std::optional(pair_of(*hw)) : std::nullopt;
                             })
      .def_property_readonly(
          "image_embeddings",
          [](const ConceptPredictor& x) { return to_numpy(x.image_embeddings()); })
      .def("set_image_embeddings", set_image_embeddings<ConceptPredictor>, py::arg("embeddings"),
           py::arg("orig_hw"))
      .def(
          "check_examples",
          [](const ConceptPredictor& x, const Tokens& examples) {
            x.check_examples(views_of(examples));
          },
          py::arg("examples"))
      .def("encode_examples", encode_examples, py::arg("boxes"), py::arg("box_labels"),
           py::arg("positions") = true)
      .def("encode_text", encode_text, py::arg("ids"))
      .def(
          "find",
          [](ConceptPredictor& self, const Ids& ids, const Coordinates& points,
             const Labels& point_labels, const Coordinates& boxes, const Labels& box_labels,
             Tokens examples, double threshold, bool presence, bool raw, bool fractions,
             std::optional<py::function> progress) {
            return find(
                self, ids, {"points", points, point_labels, 2}, {"boxes", boxes, box_labels, 4},
                {{threshold, presence}, std::move(examples), raw, fractions, std::move(progress)});
          },
          py::arg("ids"), py::arg("points") = py::none(), py::arg("point_labels") = py::none(),
          py::arg("boxes") = py::none(), py::arg("box_labels") = py::none(),
          py::arg("examples") = Tokens{}, py::arg("threshold") = ConceptOptions().threshold,
          py::arg("presence") = ConceptOptions().presence, py::arg("raw") = false,
          py::arg("fractions") = false, py::arg("progress") = py::none())
      .def("upscale", upscale_concepts, py::arg("low_res"), py::arg("out").noconvert(),
           py::arg("probabilities") = false)
      .def("binarize", binarize, py::arg("low_res"), py::arg("out").noconvert());
}

}  // namespace sam_rlx
