#include "bindings/text_actions.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

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

// An action as upstream tells it. Objects: none, for a propagation that is not about some of them.
struct NamedAction {
  std::string type;
  std::optional<std::int64_t> frame;
  std::optional<std::vector<std::int64_t>> obj_ids;
};

NamedAction named(const TextAction& action) {
  NamedAction result{name_of(action.kind, action.work), action.frame, action.handles};
  const bool about_all = action.work == TextWork::Kind::kSearch;
  if (about_all || action.work == TextWork::Kind::kShow) result.obj_ids.reset();
  return result;
}

std::vector<NamedAction> actions(NamedSession& names) {
  return names.call([](const VideoSession& session) {
    std::vector<NamedAction> list;
    for (const TextAction& action : session.texts().actions()) list.push_back(named(action));
    return list;
  });
}

NamedAction next_text_action(NamedSession& names) {
  return names.call([](const VideoSession& session) {
    const TextWork work = next_text_work(session.texts().actions(), session.num_frames());
    return named({.handles = work.handles, .work = work.kind});
  });
}

void note_action(NamedSession& names, const std::string& type, std::optional<std::int64_t> frame,
                 std::vector<std::int64_t> obj_ids) {
  for (const ActionName& one : kNames) {
    if (type != one.name) continue;
    return names.call([&](VideoSession& session) {
      session.note({one.kind, frame, std::move(obj_ids), one.work});
    });
  }
  fail("action_type", "the name of an action", type);
}

// What one text has done.
struct TextStatus {
  MaskletTracker::Seconds seconds;    // of its last frame
  std::vector<std::int64_t> refined;  // objects that were clicked, by number
  std::vector<std::int64_t> frames;   // with results
};

std::vector<TextStatus> texts(NamedSession& names) {
  return names.call([](const VideoSession& session) {
    std::vector<TextStatus> list;
    for (const VideoTexts::Text& text : session.texts().texts()) {
      TextStatus status{.seconds = text.tracker->seconds(), .refined = {}, .frames = {}};
      for (const auto& entry : text.refined) status.refined.push_back(entry.first);
      for (const auto& entry : text.tracker->state().results) status.frames.push_back(entry.frame);
      list.push_back(std::move(status));
    }
    return list;
  });
}

void register_structs(py::module_& m) {
  py::classh<NamedAction>(m, "TextAction")
      .def_readonly("type", &NamedAction::type)
      .def_readonly("frame_idx", &NamedAction::frame)
      .def_readonly("obj_ids", &NamedAction::obj_ids);
  py::classh<TextStatus>(m, "TextStatus")
      .def_property_readonly("seconds",
                             [](const TextStatus& status) {
                               using namespace py::literals;
                               const MaskletTracker::Seconds& s = status.seconds;
                               return py::dict("detector"_a = s.detector, "tracker"_a = s.tracker,
                                               "association"_a = s.association);
                             })
      .def_readonly("refined", &TextStatus::refined)
      .def_readonly("frames", &TextStatus::frames);
}

}  // namespace

void register_text_actions(py::module_& m, py::classh<NamedSession>& type) {
  register_structs(m);
  type.def_property_readonly("actions", actions)
      .def("note_action", note_action, py::arg("type"), py::arg("frame"), py::arg("obj_ids"))
      .def_property_readonly("next_text_action", next_text_action)
      .def(
          "text_propagation",
          [](NamedSession& names, std::optional<std::int64_t> start,
             std::optional<std::int64_t> count, bool reverse) {
            return names.call([&](VideoSession& session) {
              return session.text_propagation({.start = start, .count = count, .reverse = reverse});
            });
          },
          py::arg("start"), py::arg("count"), py::arg("reverse"))
      .def_property_readonly("texts", texts);
}

}  // namespace sam_rlx
