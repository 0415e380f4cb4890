#include <pybind11/stl.h>

#include <algorithm>

#include "bindings/config_dict.h"
#include "bindings/frame_answer.h"
#include "bindings/image_array.h"
#include "bindings/named_session.h"
#include "bindings/point_prompt.h"
#include "bindings/python_frames.h"
#include "bindings/register.h"
#include "bindings/text_actions.h"
#include "bindings/text_prompt.h"

// Sessions of videos. Each method is one call of the session, without the GIL.

namespace sam_rlx {
namespace {

using Index = std::int64_t;
using MaybeIndex = std::optional<Index>;

FrameKind frame_kind_named(const std::string& name) {
  if (name == "images") return FrameKind::kImages;
  if (name == "folder") return FrameKind::kFolder;
  if (name == "clip") return FrameKind::kClip;
  fail("frames", "\"images\", \"folder\" or \"clip\"", '"' + name + '"');
}

// "video": as upstream's loader of such frames does; else as ImagePredictor.
std::optional<Resize> video_resize_named(const std::string& name) {
  if (name == "video") return std::nullopt;
  if (name != "float" && name != "integer") {
    fail("resize", "\"video\", \"float\" or \"integer\"", '"' + name + '"');
  }
  return resize_named(name);
}

VideoOptions options_of(const py::dict& options) {
  const py::dict others(options.attr("copy")());
  const py::object resize = others.attr("pop")("resize", "video");
  const py::object frames = others.attr("pop")("frames", "images");
  auto result =
      read_options<VideoOptions>(others, "VideoPredictor", "an option of the video predictor");
  result.resize = video_resize_named(resize.cast<std::string>());
  result.frames = frame_kind_named(frames.cast<std::string>());
  return result;
}

Source source_of(const std::string& name) {
  if (name == "tracked") return Source::kTracked;
  if (name == "latest") return Source::kLatest;
  fail("source", "tracked or latest", name);
}

std::unique_ptr<NamedSession> make_session(std::shared_ptr<const Model> model, int num_threads,
                                           const py::dict& options, const py::object& frames) {
  return std::make_unique<NamedSession>(
      std::make_unique<VideoSession>(std::move(model), num_threads, options_of(options),
                                     frames_of(frames)),
      frames);
}

template <class Work>
auto released(const Work& work) {
  const GilRelease release;
  return work();
}

// A call that gives a frame: work(session) runs without the GIL.
template <class Work>
FrameAnswer frame_call(NamedSession& names, const Work& work) {
  return names.call([&](VideoSession& session) {
    return answer(names, released([&] { return work(session); }));
  });
}

// ---------------------------------------------------------------- prompts

FrameAnswer add_points(NamedSession& names, Index frame, const py::object& obj_id,
                       const std::string& label, const Array<double>& coords,
                       const Array<std::int32_t>& labels, PointArguments arguments, Wants wants) {
  return names.call([&](VideoSession& session) {
    PointPrompt prompt = point_prompt(arguments, coords, labels);
    prompt.frame = frame;
    prompt.handle = arguments.of_text ? obj_id.cast<Index>() : names.find_or_add(obj_id, label);
    FrameResult result =
        released([&] { return session.add_points(prompt, wants, arguments.of_text); });
    if (!session.texts().knows(prompt.handle)) names.reserve(obj_id);
    return answer(names, std::move(result));
  });
}

FrameAnswer add_mask(NamedSession& names, Index frame, const py::object& obj_id,
                     const std::string& label, const Array<float>& mask, bool any_size,
                     Wants wants) {
  const ConstView view = view_of(mask, "mask");
  if (view.shape.rank() != 2 || view.numel() == 0) fail("mask", "shape (H, W)", view.shape.str());
  return names.call([&](VideoSession& session) {
    const Index handle = names.find_or_add(obj_id, label);
    FrameResult result =
        released([&] { return session.add_mask({frame, handle, view, any_size}, wants); });
    names.reserve(obj_id);
    return answer(names, std::move(result));
  });
}

// None: there is no such object.
std::optional<FrameAnswer> clear_prompts(NamedSession& names, Index frame, const py::object& obj_id,
                                         Wants wants) {
  return names.call([&](VideoSession& session) -> std::optional<FrameAnswer> {
    const MaybeIndex handle = names.find(obj_id);
    if (!handle) return std::nullopt;
    return answer(names, released([&] { return session.clear_prompts(frame, *handle, wants); }));
  });
}

std::optional<std::vector<FrameAnswer>> remove_object(NamedSession& names, const py::object& obj_id,
                                                      Wants wants) {
  return names.call([&](VideoSession& session) -> std::optional<std::vector<FrameAnswer>> {
    const MaybeIndex handle = names.find(obj_id);
    if (!handle) return std::nullopt;
    std::vector<FrameResult> results =
        released([&] { return session.remove_object(*handle, wants); });
    std::vector<FrameAnswer> answers;
    for (FrameResult& result : results) {
      answers.push_back(answer(names, std::move(result)));
    }
    return answers;
  });
}

void register_prompts(py::classh<NamedSession>& type) {
  type.def(
          "add_points",
          [](NamedSession& names, Index frame, const py::object& obj_id, const std::string& label,
             const Array<double>& coords, const Array<std::int32_t>& labels, bool clear_old_points,
             bool normalize_coords, bool any_label, bool of_text, Wants wants) {
            return add_points(names, frame, obj_id, label, coords, labels,
                              {clear_old_points, normalize_coords, any_label, of_text}, wants);
          },
          py::arg("frame"), py::arg("obj_id"), py::arg("label"), py::arg("coords"),
          py::arg("labels"), py::arg("clear_old_points") = true, py::arg("normalize_coords") = true,
          py::arg("any_label") = false, py::arg("of_text") = false, py::arg("wants") = Wants{})
      .def("add_mask", add_mask, py::arg("frame"), py::arg("obj_id"), py::arg("label"),
           py::arg("mask"), py::arg("any_size") = false, py::arg("wants") = Wants{})
      .def(
          "add_text",
          [](NamedSession& names, std::vector<std::string> texts,
             std::vector<std::vector<Index>> ids, bool has_text, const py::dict& options,
             MaybeIndex frame, const std::optional<Array<double>>& boxes,
             const std::optional<Array<std::int32_t>>& box_labels, bool fractions, bool anew,
             Wants wants) {
            const TextPrompt prompt =
                text_prompt({std::move(texts), std::move(ids), has_text, options, frame, boxes,
                             box_labels, fractions, anew});
            return frame_call(
                names, [&](VideoSession& session) { return session.add_text(prompt, wants); });
          },
          py::arg("texts"), py::arg("ids"), py::arg("has_text"), py::arg("options"),
          py::arg("frame"), py::arg("boxes") = py::none(), py::arg("box_labels") = py::none(),
          py::arg("fractions") = false, py::arg("anew") = false, py::arg("wants") = Wants{})
      .def(
          "add_object",
          [](NamedSession& names, const py::object& obj_id, const std::string& label) {
            names.call([&](VideoSession& session) {
              session.add_object(names.find_or_add(obj_id, label));
            });
          },
          py::arg("obj_id"), py::arg("label"))
      .def("clear_prompts", clear_prompts, py::arg("frame"), py::arg("obj_id"),
           py::arg("wants") = Wants{})
      .def("remove_object", remove_object, py::arg("obj_id"), py::arg("wants") = Wants{})
      .def("reset",
           [](NamedSession& names) { names.call([](VideoSession& session) { session.reset(); }); });
}

// ---------------------------------------------------------------- frames

void register_frames(py::classh<NamedSession>& type) {
  type.def(
          "load",
          [](NamedSession& names, Index frame) {
            names.call([&](VideoSession& session) { released([&] { session.load(frame); }); });
          },
          py::arg("frame"))
      .def(
          "prepare",
          [](NamedSession& names, bool allow_unprompted) {
            names.call([&](VideoSession& session) {
              released([&] { session.prepare(allow_unprompted); });
            });
          },
          py::arg("allow_unprompted") = false)
      .def(
          "propagation",
          [](NamedSession& names, MaybeIndex start, MaybeIndex count, bool reverse, bool waits,
             bool logits) {
            return names.call([&](VideoSession& session) {
              return released(
                  [&] { return session.propagation({start, count, reverse, waits, logits}); });
            });
          },
          py::arg("start"), py::arg("count"), py::arg("reverse"), py::arg("waits") = false,
          py::arg("logits") = false)
      .def(
          "next",
          [](NamedSession& names, Propagation& propagation,
             Wants wants) -> std::optional<FrameAnswer> {
            return names.call([&](VideoSession& session) -> std::optional<FrameAnswer> {
              auto result = released([&] { return session.next(propagation, wants); });
              if (!result) return std::nullopt;
              return answer(names, std::move(*result));
            });
          },
          py::arg("propagation"), py::arg("wants") = Wants{})
      .def(
          "push",
          [](NamedSession& names, const py::array& image, Wants wants) {
            const ImageArray pixels(image);
            return frame_call(
                names, [&](VideoSession& session) { return session.push(pixels.view(), wants); });
          },
          py::arg("image"), py::arg("wants") = Wants{})
      .def(
          "result",
          [](NamedSession& names, Index frame, const std::string& source, Wants wants) {
            return frame_call(names, [&](VideoSession& session) {
              if (source == "prompted") return session.prompted_result(frame, wants);
              return session.result(frame, source_of(source), wants);
            });
          },
          py::arg("frame"), py::arg("source"), py::arg("wants") = Wants{});
}

// ---------------------------------------------------------------- what there is

// Whether an object that prompts show has prompts.
bool has_prompts(NamedSession& names) {
  return names.call([](const VideoSession& session) {
    const auto& objects = session.objects().objects();
    return std::any_of(objects.begin(), objects.end(), [](const auto& object) {
      return !object->is_masklet && object->has_prompt();
    });
  });
}

void register_state(py::classh<NamedSession>& type) {
  type.def_property_readonly(
          "num_threads", [](const NamedSession& names) { return names.constants().num_threads(); })
      .def_property_readonly("side",
                             [](const NamedSession& names) { return names.constants().side(); })
      .def_property_readonly(
          "num_frames", [](const NamedSession& names) { return names.constants().num_frames(); })
      .def_property_readonly("num_pushed",
                             [](const NamedSession& names) { return names.published().num_pushed; })
      .def_property_readonly("orig_hw",
                             [](const NamedSession& names) { return names.published().orig_hw; })
      .def_property_readonly(
          "obj_ids",
          [](const NamedSession& names) { return names.published().obj_ids.attr("copy")(); })
      .def_property_readonly("has_prompts", has_prompts)
      .def(
          "set_trace",
          [](NamedSession& names, Trace* trace) {
            names.call([&](VideoSession& session) { session.set_trace(trace); });
          },
          py::arg("trace").none(true), py::keep_alive<1, 2>())
      .def("save", &NamedSession::save, py::arg("text_of"))
      .def("adopt", &NamedSession::adopt, py::arg("saved"), py::arg("obj_ids"), py::arg("labels"));
}

}  // namespace

void register_video_session(py::module_& m) {
  register_frame_answer(m);
  py::classh<Propagation>(m, "Propagation")
      .def_property_readonly("frame", [](const Propagation& x) { return x.frame; })
      .def_property_readonly("searches", [](const Propagation& x) {
        return x.text_work.kind == TextWork::Kind::kSearch;
      });
  py::classh<NamedSession> type(m, "VideoSession");
  type.def(py::init(&make_session), py::arg("model"), py::arg("num_threads"), py::arg("options"),
           py::arg("frames") = py::none())
      .def(
          "__deepcopy__",
          [](NamedSession& names, const py::dict& memo) { return names.clone(memo); },
          py::arg("memo"))
      .def("__reduce__", [](const NamedSession&) -> py::object {
        fail<UnsupportedError>("session", "copy.deepcopy, or a new session where it is needed",
                               "a session to pickle or to copy in part");
      });
  register_prompts(type);
  register_frames(type);
  register_state(type);
  register_text_actions(m, type);
}

}  // namespace sam_rlx
