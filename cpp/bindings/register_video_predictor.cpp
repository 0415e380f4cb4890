#include <algorithm>
#include <set>

#include "bindings/config_dict.h"
#include "bindings/image_array.h"
#include "bindings/numpy.h"
#include "bindings/point_prompt.h"
#include "bindings/register.h"
#include "bindings/video_calls.h"
#include "bindings/video_state.h"

namespace sam_rlx {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

std::optional<Size> size_of(const std::optional<Pair>& pair) {
  if (!pair) return std::nullopt;
  return Size{pair->first, pair->second};
}

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

// A method of the session that changes nothing as one of the predictor.
template <class Result, class... Args>
auto asking(Result (TrackedObjects::*method)(Args...) const) {
  return [method](VideoPredictor& predictor, Args... args) {
    return predictor.use([&](TrackedObjects& session) { return (session.*method)(args...); });
  };
}

void set_frame(VideoPredictor& predictor, std::int64_t index, const py::array& image,
               const std::optional<Pair>& orig_hw) {
  const ImageArray pixels(image);
  const GilRelease release;
  predictor.change(
      [&](TrackedObjects& session) { session.set_frame(index, pixels.view(), size_of(orig_hw)); });
}

bool add_points(VideoPredictor& predictor, const PointArguments& arguments,
                const Array<double>& coords, const Array<std::int32_t>& labels) {
  const PointPrompt prompt = point_prompt(arguments, coords, labels);
  const GilRelease release;
  return predictor.add_points(prompt);
}

bool add_mask(VideoPredictor& predictor, std::int64_t frame, std::int64_t handle,
              const Array<float>& mask) {
  const ConstView view = view_of(mask, "mask");
  if (view.shape.rank() != 2 || view.numel() == 0) fail("mask", "shape (H, W)", view.shape.str());
  const GilRelease release;
  return predictor.add_mask(frame, handle, view);
}

Source source_of(const std::string& name) {
  if (name == "tracked") return Source::kTracked;
  if (name == "cond") return Source::kCond;
  if (name == "correction") return Source::kCorrection;
  if (name == "latest") return Source::kLatest;
  fail("source", "tracked, cond, correction or latest", name);
}

// Handles, masks (K, H, W), object scores.
py::tuple masks_of(TrackedObjects& session, std::int64_t frame, Source source,
                   bool return_logits) {
  if (!session.orig_hw()) fail<StateError>("masks", "a frame given before", "none");
  const Size size = *session.orig_hw();
  const std::vector<TrackedObjects::Shown> objects = session.shown(frame, source);
  std::vector<const FrameOutput*> outputs;
  py::list handles, scores;
  for (const TrackedObjects::Shown& object : objects) {
    outputs.push_back(object.output);
    handles.append(object.handle);
    scores.append(object.output->object_score_logits);
  }
  const Shape shape{static_cast<std::int64_t>(objects.size()), size.height, size.width};
  if (return_logits) {
    auto out = make_array<float>(shape);
    const View view = view_of(out);
    {
      const GilRelease release;
      Context ctx = session.context();
      session.step().upscale(ctx, outputs, size, view);
    }
    return py::make_tuple(handles, std::move(out), scores);
  }
  auto out = make_array<bool>(shape);
  auto* const pixels = reinterpret_cast<std::uint8_t*>(out.mutable_data());
  {
    const GilRelease release;
    Context ctx = session.context();
    session.step().binarize(ctx, outputs, size, pixels);
  }
  return py::make_tuple(handles, std::move(out), scores);
}

// Logits (K, S, S) of the objects that masks() lists.
py::array low_res_masks(VideoPredictor& predictor, std::int64_t frame, const std::string& source) {
  return predictor.use([&](TrackedObjects& session) -> py::array {
    const std::vector<TrackedObjects::Shown> objects = session.shown(frame, source_of(source));
    for (const TrackedObjects::Shown& object : objects) {
      if (object.output->low_res_mask.empty()) {
        fail<StateError>("low_res_masks", "a frame that was tracked", "a mask that was given");
      }
    }
    const auto count = static_cast<std::int64_t>(objects.size());
    const std::int64_t side = objects.empty() ? 0 : objects[0].output->low_res_mask.shape()[0];
    auto out = make_array<float>({count, side, side});
    float* next = out.mutable_data();
    for (const TrackedObjects::Shown& object : objects) {
      const SharedTensor& mask = object.output->low_res_mask;
      next = std::copy_n(mask.data(), mask.numel(), next);
    }
    return out;
  });
}

py::list objects(VideoPredictor& predictor) {
  py::list handles;
  predictor.use([&](const TrackedObjects& session) {
    for (const auto& object : session.objects()) {
      if (!object->is_masklet) handles.append(object->handle);
    }
  });
  return handles;
}

// Frames with prompts of an object, ascending; with outputs of prompts too.
py::tuple prompts_of(const TrackedObject& object) {
  const FrameSet given = object.prompted_frames();
  std::set<std::int64_t> cond;
  for (const auto& entry : object.cond_frame_outputs) cond.insert(entry.frame);
  for (const auto& entry : object.temp_cond) cond.insert(entry.frame);
  return py::make_tuple(std::vector<std::int64_t>(given.begin(), given.end()),
                        std::vector<std::int64_t>(cond.begin(), cond.end()));
}

py::dict prompts(VideoPredictor& predictor) {
  py::dict result;
  predictor.use([&](const TrackedObjects& session) {
    for (const auto& object : session.objects()) {
      if (!object->is_masklet) result[py::int_(object->handle)] = prompts_of(*object);
    }
  });
  return result;
}

std::optional<Pair> orig_hw(VideoPredictor& predictor) {
  const std::optional<Size> size =
      predictor.use([](const TrackedObjects& session) { return session.orig_hw(); });
  if (!size) return std::nullopt;
  return Pair{size->height, size->width};
}

std::unique_ptr<VideoPredictor> interruptible(std::unique_ptr<VideoPredictor> predictor) {
  predictor->use([](TrackedObjects& session) { session.set_poll_interrupt(poll_python_signals); });
  return predictor;
}

std::unique_ptr<VideoPredictor> make_predictor(std::shared_ptr<const Model> model, int num_threads,
                                               const py::dict& options,
                                               std::optional<std::int64_t> num_frames) {
  return interruptible(std::make_unique<VideoPredictor>(std::move(model), num_threads,
                                                        options_of(options), num_frames));
}

void register_prompts(py::classh<VideoPredictor>& type) {
  type.def(
          "add_points",
          [](VideoPredictor& predictor, std::int64_t frame, std::int64_t handle,
             const Array<double>& coords, const Array<std::int32_t>& labels, bool clear_old_points,
             bool normalize_coords, bool any_label) {
            return add_points(predictor,
                              {frame, handle, clear_old_points, normalize_coords, any_label},
                              coords, labels);
          },
          py::arg("frame"), py::arg("handle"), py::arg("coords"), py::arg("labels"),
          py::arg("clear_old_points") = true, py::arg("normalize_coords") = true,
          py::arg("any_label") = false)
      .def("add_object", &VideoPredictor::add_object, py::arg("handle"))
      .def("add_mask", add_mask, py::arg("frame"), py::arg("handle"), py::arg("mask"))
      .def(
          "clear_prompts",
          [](VideoPredictor& predictor, std::int64_t frame, std::int64_t handle) {
            return predictor.change([&](TrackedObjects& session) {
              session.clear_prompts(frame, handle);
              return session.has_new_prompt(frame);
            });
          },
          py::arg("frame"),
           py::arg("handle"))
      .def("remove_object", &VideoPredictor::remove_object, py::arg("handle"))
      .def("has_new_prompt", asking(&TrackedObjects::has_new_prompt), py::arg("frame"))
      .def("reset", &VideoPredictor::reset);
}

}  // namespace

py::tuple masks_on_frame(VideoPredictor& predictor, std::int64_t frame, const std::string& source,
                         bool return_logits) {
  return predictor.use([&](TrackedObjects& session) {
    return masks_of(session, frame, source_of(source), return_logits);
  });
}

void register_video_predictor(py::module_& m) {
  py::classh<Propagation>(m, "Propagation")
      .def_property_readonly("frame", [](const Propagation& x) { return x.frame; })
      .def_property_readonly("is_done", &Propagation::is_done)
      .def_property_readonly(
          "searches",
          [](const Propagation& x) { return x.text_work.kind == TextWork::Kind::kSearch; })
      .def("end", [](Propagation& x) { x.ended = true; });
  py::classh<VideoPredictor> type(m, "VideoPredictor");
  type.def(py::init(&make_predictor), py::arg("model"), py::arg("num_threads"), py::arg("options"),
           py::arg("num_frames") = py::none())
      .def(
          "__deepcopy__",
          [](VideoPredictor& predictor, const py::dict&) {
            return interruptible(predictor.clone());
          },
          py::arg("memo"))
      .def("__reduce__",
           [](const VideoPredictor&) -> py::object {
             fail<UnsupportedError>("session", "copy.deepcopy, or a new session where it is needed",
                                    "a session to pickle or to copy in part");
           })
      .def_property_readonly("num_threads", &VideoPredictor::num_threads)
      .def(
          "set_trace",
          [](VideoPredictor& predictor, Trace* trace) {
            predictor.use([&](TrackedObjects& session) { session.set_trace(trace); });
          },
          py::arg("trace").none(true), py::keep_alive<1, 2>())
      .def_property_readonly("side", &VideoPredictor::side)
      .def_property_readonly("wants_squares", &VideoPredictor::wants_squares)
      .def_property_readonly("orig_hw", orig_hw)
      .def_property_readonly("num_frames",
                             [](VideoPredictor& predictor) {
                               return predictor.use([](const TrackedObjects& session) {
                                 return session.step().num_frames();
                               });
                             })
      .def_property_readonly("objects", objects)
      .def_property_readonly("prompts", prompts)
      .def("has_frame", asking(&TrackedObjects::has_frame), py::arg("index"))
      .def("set_frame", set_frame, py::arg("index"), py::arg("image"),
           py::arg("orig_hw") = py::none())
      .def("masks", masks_on_frame, py::arg("frame"), py::arg("source"), py::arg("return_logits"))
      .def("low_res_masks", low_res_masks, py::arg("frame"), py::arg("source"))
      .def("export_state",
           [](VideoPredictor& predictor) { return predictor.use(export_video_state); })
      .def(
          "import_state",
          [](VideoPredictor& predictor, const py::dict& state, std::int64_t num_pushed) {
            predictor.change([&](TrackedObjects& session) { import_video_state(session, state); });
            predictor.adopt_counts(num_pushed);
          },
          py::arg("state"), py::arg("num_pushed") = 0);
  register_prompts(type);
  register_video_calls(type);
}

}  // namespace sam_rlx
