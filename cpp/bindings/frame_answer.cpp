#include "bindings/frame_answer.h"

#include <pybind11/stl.h>

#include <utility>

namespace sam_rlx {
namespace {

py::array_t<bool> array_of(MaskStack masks) {
  if (masks.bits == nullptr) return make_array<bool>({0, 0, 0});
  const std::vector<py::ssize_t> sizes{masks.count, masks.hw.height, masks.hw.width};
  auto* const bits = masks.bits.release();
  const py::capsule owner(bits, [](void* p) { delete[] static_cast<std::uint8_t*>(p); });
  return py::array_t<bool>(sizes, reinterpret_cast<bool*>(bits), owner);
}

py::array_t<float> array_of(Tensor logits) {
  if (logits.empty()) return make_array<float>({0, 0, 0});
  return to_numpy(std::move(logits));
}

py::array_t<std::int64_t> array_of(const std::vector<PixelBox>& boxes) {
  auto out = make_array<std::int64_t>({static_cast<std::int64_t>(boxes.size()), 4});
  std::int64_t* position = out.mutable_data();
  for (const PixelBox& box : boxes) {
    for (const std::int64_t side : {box.x0, box.y0, box.x1, box.y1}) *position++ = side;
  }
  return out;
}

}  // namespace

FrameAnswer answer(const NamedSession& names, FrameResult result) {
  FrameAnswer found{.frame_index = result.frame,
                    .obj_ids = py::list(),
                    .scores = {},
                    .masks = array_of(std::move(result.masks)),
                    .logits = array_of(std::move(result.logits)),
                    .low_res_masks = array_of(std::move(result.low_res_masks)),
                    .texts = {}};
  for (const ShownObject& object : result.objects) {
    found.obj_ids.append(names.name_of(object.handle));
    found.scores.push_back(object.object_score_logits);
  }
  for (TextResult& text : result.texts) {
    found.texts.push_back({.text = std::move(text.text),
                           .obj_ids = std::move(text.names),
                           .scores = std::move(text.seen.scores),
                           .masks = array_of(std::move(text.masks)),
                           .boxes = array_of(text.seen.boxes),
                           .num_tracked = text.seen.counts.num_tracked,
                           .num_dropped = text.seen.counts.num_dropped});
  }
  return found;
}

void register_frame_answer(py::module_& m) {
  py::classh<Wants>(m, "Wants")
      .def(py::init([](bool masks, bool logits, bool low_res_masks) {
             return Wants{masks, logits, low_res_masks};
           }),
           py::arg("masks") = true, py::arg("logits") = false, py::arg("low_res_masks") = false);
  py::classh<TextAnswer>(m, "TextResult")
      .def_readonly("text", &TextAnswer::text)
      .def_readonly("obj_ids", &TextAnswer::obj_ids)
      .def_readonly("scores", &TextAnswer::scores)
      .def_readonly("masks", &TextAnswer::masks)
      .def_readonly("boxes", &TextAnswer::boxes)
      .def_readonly("num_tracked", &TextAnswer::num_tracked)
      .def_readonly("num_dropped", &TextAnswer::num_dropped);
  py::classh<FrameAnswer>(m, "FrameResult")
      .def_readonly("frame_index", &FrameAnswer::frame_index)
      .def_readonly("obj_ids", &FrameAnswer::obj_ids)
      .def_readonly("scores", &FrameAnswer::scores)
      .def_readonly("masks", &FrameAnswer::masks)
      .def_readonly("logits", &FrameAnswer::logits)
      .def_readonly("low_res_masks", &FrameAnswer::low_res_masks)
      .def_readonly("texts", &FrameAnswer::texts);
}

}  // namespace sam_rlx
