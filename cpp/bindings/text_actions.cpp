#include "bindings/text_actions.h"

#include <pybind11/stl.h>

#include <array>
#include <string>
#include <utility>

#include "bindings/masklet_arrays.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

struct ActionName {
  const char* name;
  TextAction::Kind kind;
  TextWork::Kind work = TextWork::Kind::kMissing;
};
constexpr std::array kNames = {
    ActionName{"add", TextAction::Kind::kAdd},
    ActionName{"refine", TextAction::Kind::kRefine},
    ActionName{"remove", TextAction::Kind::kRemove},
    ActionName{"propagation_full", TextAction::Kind::kPropagate, TextWork::Kind::kSearch},
    ActionName{"propagation_partial", TextAction::Kind::kPropagate, TextWork::Kind::kRefined},
    ActionName{"propagation_fetch", TextAction::Kind::kPropagate, TextWork::Kind::kShow},
};

const char* name_of(TextAction::Kind kind, TextWork::Kind work) {
  for (const ActionName& one : kNames) {
    if (one.kind == kind && one.work == work) return one.name;
  }
  fail_internal("an action has no name");
}

// None, as upstream, for a propagation that is not about some objects.
py::object handles_of(TextWork::Kind work, const std::vector<std::int64_t>& handles) {
  if (work == TextWork::Kind::kSearch || work == TextWork::Kind::kShow) return py::none();
  return py::cast(handles);
}

py::list actions(VideoPredictor& predictor) {
  using namespace py::literals;
  py::list list;
  predictor.use_texts([&](const VideoTexts& texts) {
    for (const TextAction& action : texts.actions()) {
      list.append(py::dict("type"_a = name_of(action.kind, action.work),
                           "frame_idx"_a = action.frame,
                           "obj_ids"_a = handles_of(action.work, action.handles)));
    }
  });
  return list;
}

void note_action(VideoPredictor& predictor, const std::string& type,
                 std::optional<std::int64_t> frame, std::vector<std::int64_t> handles) {
  for (const ActionName& one : kNames) {
    if (type != one.name) continue;
    return predictor.use_texts(
        [&](VideoTexts& texts) { texts.note({one.kind, frame, std::move(handles), one.work}); });
  }
  fail("action_type", "the name of an action", type);
}

py::tuple next_text_action(VideoPredictor& predictor) {
  const auto count =
      predictor.use([](const TrackedObjects& session) { return session.step().num_frames(); });
  const TextWork work = predictor.use_texts(
      [&](const VideoTexts& texts) { return next_text_work(texts.actions(), count); });
  return py::make_tuple(name_of(TextAction::Kind::kPropagate, work.kind),
                        handles_of(work.kind, work.handles));
}

// Of the last text, on a frame: objects, masks (K, H, W), scores, inclusive boxes (K, 4) xyxy of
// masks before they are cut where they overlap, and how many objects are tracked and dropped.
py::tuple text_result(VideoPredictor& predictor, std::int64_t frame) {
  DrawnMasklets drawn = predictor.use_texts([&](const VideoTexts& texts) {
    if (texts.empty()) fail<StateError>("text_result", "a text", "none");
    return draw_masklets(*texts.texts().back().tracker, frame);
  });
  const MaskletTracker::Seen& seen = drawn.seen;
  auto boxes = make_array<std::int64_t>({static_cast<std::int64_t>(seen.boxes.size()), 4});
  std::int64_t* position = boxes.mutable_data();
  for (const PixelBox& box : seen.boxes) {
    for (const std::int64_t side : {box.x0, box.y0, box.x1, box.y1}) *position++ = side;
  }
  return py::make_tuple(seen.obj_ids, std::move(drawn.masks), seen.scores, std::move(boxes),
                        py::make_tuple(seen.counts.num_tracked, seen.counts.num_dropped));
}

}  // namespace

void register_text_actions(py::classh<VideoPredictor>& type) {
  type.def_property_readonly("actions", actions)
      .def("note_action", note_action, py::arg("type"), py::arg("frame"), py::arg("handles"))
      .def_property_readonly("next_text_action", next_text_action)
      .def(
          "text_propagation",
          [](VideoPredictor& predictor, std::optional<std::int64_t> start,
             std::optional<std::int64_t> count,
             bool reverse) { return predictor.text_propagation({start, count, reverse}); },
          py::arg("start"), py::arg("count"), py::arg("reverse"))
      .def("text_result", text_result, py::arg("frame"));
}

}  // namespace sam_rlx
