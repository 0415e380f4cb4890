#include <pybind11/stl.h>

#include "bindings/numpy.h"
#include "bindings/register.h"
#include "predictors/concept/concept_network.h"

namespace sam_rlx {
namespace {

using Ids = Array<std::int64_t>;
using Mask = Array<bool>;

struct VisionArrays {
  py::array_t<float> last_hidden_state;
  py::tuple fpn_hidden_states;
};
struct TextArrays {
  py::array_t<float> last_hidden_state, pooler_output;
};
struct NetworkArrays {
  py::array_t<float> pred_logits, pred_boxes, reference_boxes, pred_masks, semantic_seg;
  float presence_logit = 0.0F;
};

VisionArrays vision(ConceptNetwork& network, const Array<float>& pixels) {
  const ConstView view = sam_rlx::view_of(pixels, "pixel_values");
  ConceptNetwork::Vision found;
  {
    const GilRelease release;
    found = network.vision(view);
  }
  return {to_numpy(std::move(found.last_hidden_state)), to_numpy(std::move(found.levels))};
}

void set_pixels(ConceptNetwork& network, const Array<float>& pixels) {
  const ConstView view = sam_rlx::view_of(pixels, "pixel_values");
  const GilRelease release;
  network.set_pixels(view);
}

void set_levels(ConceptNetwork& network, const std::vector<Array<float>>& levels) {
  std::vector<ConstView> views;
  for (const Array<float>& level : levels)
    views.push_back(sam_rlx::view_of(level, "fpn_hidden_states"));
  const GilRelease release;
  network.set_levels(views);
}

TextArrays text(ConceptNetwork& network, const Ids& ids, const std::optional<Mask>& hidden) {
  if (ids.ndim() != 2) fail("ids", "shape (N, L)", shape_of(ids, "ids").str());
  if (hidden && shape_of(*hidden, "hidden") != shape_of(ids, "ids")) {
    fail("attention_mask", "shape " + shape_of(ids, "ids").str(),
         shape_of(*hidden, "hidden").str());
  }
  ConceptNetwork::Texts found;
  {
    const GilRelease release;
    found =
        network.text({ids.data(), ids.shape(0), ids.shape(1)}, hidden ? hidden->data() : nullptr);
  }
  return {to_numpy(std::move(found.last_hidden_state)), to_numpy(std::move(found.pooler_output))};
}

NetworkArrays detect(ConceptNetwork& network, const Array<float>& text,
                     const std::optional<Mask>& padding, const Array<float>& boxes,
                     const Array<std::int32_t>& labels, bool has_boxes) {
  const ConstView tokens = sam_rlx::view_of(text, "text"),
                  corners = sam_rlx::view_of(boxes, "boxes");
  const bool fits = tokens.shape.rank() == 2 && corners.shape.rank() == 2 &&
                    corners.shape[1] == 4 && labels.ndim() == 1 &&
                    labels.shape(0) == corners.shape[0] &&
                    (!padding || (padding->ndim() == 1 && padding->shape(0) == tokens.shape[0]));
  if (!fits) {
    fail("detect", "a text (L, C), with padding (L,), and boxes (B, 4) with labels (B,)",
         tokens.shape.str() + " and " + corners.shape.str());
  }
  ConceptNetwork::Found found;
  {
    const GilRelease release;
    sam3::ConceptPrompt prompt{.text = tokens, .text_padding = padding ? padding->data() : nullptr};
    prompt.geometry.is_given = has_boxes;
    if (corners.shape[0] > 0) {
      prompt.geometry.boxes = corners;
      prompt.geometry.box_labels = labels.data();
    }
    found = network.detect(prompt);
  }
  return {.pred_logits = to_numpy(std::move(found.logits)),
          .pred_boxes = to_numpy(std::move(found.boxes)),
          .reference_boxes = to_numpy(std::move(found.reference_boxes)),
          .pred_masks = to_numpy(std::move(found.masks)),
          .semantic_seg = to_numpy(std::move(found.semantic_seg)),
          .presence_logit = found.presence_logit};
}

}  // namespace

void register_concept_network(py::module_& m) {
  py::classh<VisionArrays>(m, "VisionFeatures")
      .def_readonly("last_hidden_state", &VisionArrays::last_hidden_state)
      .def_readonly("fpn_hidden_states", &VisionArrays::fpn_hidden_states);
  py::classh<TextArrays>(m, "TextFeatures")
      .def_readonly("last_hidden_state", &TextArrays::last_hidden_state)
      .def_readonly("pooler_output", &TextArrays::pooler_output);
  py::classh<NetworkArrays>(m, "NetworkDetections")
      .def_readonly("pred_logits", &NetworkArrays::pred_logits)
      .def_readonly("pred_boxes", &NetworkArrays::pred_boxes)
      .def_readonly("reference_boxes", &NetworkArrays::reference_boxes)
      .def_readonly("pred_masks", &NetworkArrays::pred_masks)
      .def_readonly("semantic_seg", &NetworkArrays::semantic_seg)
      .def_readonly("presence_logit", &NetworkArrays::presence_logit);
  py::classh<ConceptNetwork>(m, "ConceptNetwork")
      .def(py::init([](std::shared_ptr<const Model> model, int num_threads) {
             auto network = std::make_unique<ConceptNetwork>(std::move(model), num_threads);
             network->set_poll_interrupt(poll_python_signals);
             return network;
           }),
           py::arg("model"), py::arg("num_threads") = 0)
      .def_property_readonly("num_threads", &ConceptNetwork::num_threads)
      .def("set_pixels", set_pixels, py::arg("pixel_values"))
      .def("set_levels", set_levels, py::arg("fpn_hidden_states"))
      .def("vision", vision, py::arg("pixel_values"))
      .def("position_encodings",
           [](ConceptNetwork& network) { return to_numpy(network.position_encodings()); })
      .def("text", text, py::arg("ids"), py::arg("hidden") = py::none())
      .def("detect", detect, py::arg("text"), py::arg("padding").none(true), py::arg("boxes"),
           py::arg("labels"), py::arg("has_boxes"));
}

}  // namespace sam_rlx
