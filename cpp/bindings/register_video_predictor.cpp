#include <algorithm>
#include <set>

#include "bindings/config_dict.h"
#include "bindings/image_array.h"
#include "bindings/masklet_arrays.h"
#include "bindings/numpy.h"
#include "bindings/point_prompt.h"
#include "bindings/register.h"
#include "bindings/video_state.h"
#include "predictors/video/video_predictor.h"

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

// A method of the session as one of the predictor: one that changes the session, and one that does
// not.
template <class Result, class... Args>
auto changing(Result (VideoSession::*method)(Args...)) {
  return [method](VideoPredictor& predictor, Args... args) {
    return predictor.change([&](VideoSession& session) { return (session.*method)(args...); });
  };
}
template <class Result, class... Args>
auto asking(Result (VideoSession::*method)(Args...) const) {
  return [method](VideoPredictor& predictor, Args... args) {
    return predictor.use([&](VideoSession& session) { return (session.*method)(args...); });
  };
}

void set_frame(VideoPredictor& predictor, std::int64_t index, const py::array& image,
               const std::optional<Pair>& orig_hw) {
  const ImageArray pixels(image);
  const GilRelease release;
  predictor.change(
      [&](VideoSession& session) { session.set_frame(index, pixels.view(), size_of(orig_hw)); });
}

bool add_points(VideoPredictor& predictor, const PointArguments& arguments,
                const Array<double>& coords, const Array<std::int32_t>& labels) {
  const VideoSession::PointPrompt prompt = point_prompt(arguments, coords, labels);
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

VideoSession::Source source_of(const std::string& name) {
  if (name == "tracked") return VideoSession::Source::kTracked;
  if (name == "cond") return VideoSession::Source::kCond;
  if (name == "correction") return VideoSession::Source::kCorrection;
  if (name == "latest") return VideoSession::Source::kLatest;
  fail("source", "tracked, cond, correction or latest", name);
}

// Handles, masks (K, H, W), object scores.
py::tuple masks_of(VideoSession& session, std::int64_t frame, VideoSession::Source source,
                   bool return_logits) {
  if (!session.orig_hw()) fail<StateError>("masks", "a frame given before", "none");
  const Size size = *session.orig_hw();
  const std::vector<VideoSession::Shown> objects = session.shown(frame, source);
  py::list handles, scores;
  for (const VideoSession::Shown& object : objects) {
    handles.append(object.handle);
    scores.append(object.output->object_score_logits);
  }
  const Shape shape{static_cast<std::int64_t>(objects.size()), size.height, size.width};
  if (return_logits) {
    auto out = make_array<float>(shape);
    const View view = view_of(out);
    {
      const GilRelease release;
      session.upscale(objects, view);
    }
    return py::make_tuple(handles, std::move(out), scores);
  }
  auto out = make_array<bool>(shape);
  auto* const pixels = reinterpret_cast<std::uint8_t*>(out.mutable_data());
  {
    const GilRelease release;
    session.binarize(objects, pixels);
  }
  return py::make_tuple(handles, std::move(out), scores);
}

py::tuple masks(VideoPredictor& predictor, std::int64_t frame, const std::string& source,
                bool return_logits) {
  return predictor.use([&](VideoSession& session) {
    return masks_of(session, frame, source_of(source), return_logits);
  });
}

py::list objects(VideoPredictor& predictor) {
  py::list handles;
  predictor.use([&](const VideoSession& session) {
    for (const auto& object : session.objects()) {
      if (!object->is_masklet) handles.append(object->handle);
    }
  });
  return handles;
}

// Frames with prompts of an object, ascending; with outputs of prompts too.
py::tuple prompts_of(const TrackedObject& object) {
  std::set<std::int64_t> given = object.mask_frames, cond;
  for (const auto& entry : object.points) given.insert(entry.first);
  for (const std::int64_t frame : object.cond_frames()) cond.insert(frame);
  for (const auto& entry : object.temp_cond) cond.insert(entry.first);
  return py::make_tuple(std::vector<std::int64_t>(given.begin(), given.end()),
                        std::vector<std::int64_t>(cond.begin(), cond.end()));
}

py::dict prompts(VideoPredictor& predictor) {
  py::dict result;
  predictor.use([&](const VideoSession& session) {
    for (const auto& object : session.objects()) {
      if (!object->is_masklet) result[py::int_(object->handle)] = prompts_of(*object);
    }
  });
  return result;
}

std::optional<Pair> orig_hw(VideoPredictor& predictor) {
  const std::optional<Size> size =
      predictor.use([](const VideoSession& session) { return session.orig_hw(); });
  if (!size) return std::nullopt;
  return Pair{size->height, size->width};
}

// Those that texts named, by number, with their names.
py::dict found(VideoPredictor& predictor) {
  py::dict names;
  predictor.use_phrases([&](const VideoPhrases& phrases) {
    for (const VideoPhrases::Phrase& phrase : phrases.phrases()) {
      for (const std::int64_t handle : phrase.tracker->obj_ids()) {
        names[py::int_(handle)] = phrases.name_of(handle);
      }
    }
  });
  return names;
}

// Of each text: seconds of its last frame, objects that were clicked, frames with results.
py::list phrases(VideoPredictor& predictor) {
  using namespace py::literals;
  py::list list;
  predictor.use_phrases([&](const VideoPhrases& all) {
    for (const VideoPhrases::Phrase& phrase : all.phrases()) {
      const MaskletTracker::Seconds& s = phrase.tracker->seconds();
      py::list refined, frames;
      for (const auto& entry : phrase.refined) refined.append(entry.first);
      for (const auto& entry : phrase.tracker->state().results) frames.append(entry.first);
      list.append(py::dict("seconds"_a = py::dict("detector"_a = s.detector,
                                                  "tracker"_a = s.tracker,
                                                  "association"_a = s.association),
                           "refined"_a = refined, "frames"_a = frames));
    }
  });
  return list;
}

// Frames pushed, size, numbers of objects that prompts show, names of those that texts name.
py::tuple published(const VideoPredictor& predictor) {
  const VideoPredictor::Published what = predictor.published();
  std::optional<Pair> hw;
  if (what.orig_hw) hw = Pair{what.orig_hw->height, what.orig_hw->width};
  return py::make_tuple(what.num_pushed, hw, what.handles, what.found_names);
}

// Of each text, its number, and what is seen of it: names, masks (K, H, W), scores.
py::list found_on(VideoPredictor& predictor, std::int64_t frame) {
  py::list list;
  predictor.use_phrases([&](const VideoPhrases& phrases) {
    for (const VideoPhrases::Phrase& phrase : phrases.phrases()) {
      DrawnMasklets drawn = draw_masklets(*phrase.tracker, frame);
      std::vector<std::int64_t> names;
      for (const std::int64_t handle : drawn.seen.obj_ids) names.push_back(phrases.name_of(handle));
      list.append(py::make_tuple(names, std::move(drawn.masks), drawn.seen.scores));
    }
  });
  return list;
}

// All that is known of a frame: numbers, masks (K, H, W), logits if asked for, scores, `found_on`.
py::tuple result(VideoPredictor& predictor, std::int64_t frame, const std::string& source,
                 bool return_logits) {
  py::tuple shown = masks(predictor, frame, source, return_logits);
  py::object pixels = shown[1], logits = py::none();
  if (return_logits) {
    logits = pixels;
    const auto values = logits.cast<Array<float>>();
    auto bits = make_array<bool>(shape_of(values, "logits"));
    const float threshold = predictor.model().info().mask_threshold;
    std::transform(values.data(), values.data() + values.size(), bits.mutable_data(),
                   [&](float logit) { return logit > threshold; });
    pixels = std::move(bits);
  }
  return py::make_tuple(shown[0], pixels, logits, shown[2], found_on(predictor, frame));
}

std::unique_ptr<VideoPredictor> make_predictor(std::shared_ptr<const Model> model, int num_threads,
                                               const py::dict& options) {
  auto predictor =
      std::make_unique<VideoPredictor>(std::move(model), num_threads, options_of(options));
  predictor->use([](VideoSession& session) { session.set_poll_interrupt(poll_python_signals); });
  return predictor;
}

void register_prompts(py::classh<VideoPredictor>& type) {
  type.def(
          "add_points",
          [](VideoPredictor& predictor, std::int64_t frame, std::int64_t handle,
             const Array<double>& coords, const Array<std::int32_t>& labels, bool clear_old_points,
             bool normalize_coords) {
            return add_points(predictor, {frame, handle, clear_old_points, normalize_coords},
                              coords, labels);
          },
          py::arg("frame"), py::arg("handle"), py::arg("coords"), py::arg("labels"),
          py::arg("clear_old_points") = true, py::arg("normalize_coords") = true)
      .def("add_mask", add_mask, py::arg("frame"), py::arg("handle"), py::arg("mask"))
      .def("clear_prompts", changing(&VideoSession::clear_prompts), py::arg("frame"),
           py::arg("handle"))
      .def("remove_object", &VideoPredictor::remove_object, py::arg("handle"))
      .def("has_new_prompt", asking(&VideoSession::has_new_prompt), py::arg("frame"))
      .def("reset", &VideoPredictor::reset);
}

// ---------------------------------------------------------------- texts

void register_phrases(py::classh<VideoPredictor>& type) {
  using Released = py::call_guard<GilRelease>;
  type.def(
          "add_phrase",
          [](VideoPredictor& predictor, std::vector<std::int64_t> ids, bool has_phrase,
             const py::dict& options, std::int64_t first) {
            const MaskletConfig config = masklet_config(options);
            predictor.use_phrases([&](VideoPhrases& phrases) {
              phrases.add({std::move(ids), has_phrase}, config, first);
            });
          },
          py::arg("ids"), py::arg("has_phrase"), py::arg("options"), py::arg("first"))
      .def(
          "set_examples",
          [](VideoPredictor& predictor, std::int64_t frame, const Array<double>& boxes,
             const Array<std::int32_t>& labels) {
            MaskletExamples examples = examples_of(boxes, labels, false);
            predictor.use_phrases([&](VideoPhrases& phrases) {
              if (phrases.empty()) fail<StateError>("set_examples", "a phrase", "none");
              phrases.phrases().back().tracker->set_examples(frame, std::move(examples));
            });
          },
          py::arg("frame"), py::arg("boxes"), py::arg("labels"))
      .def("search", &VideoPredictor::search, py::arg("frame"), Released())
      .def(
          "refine",
          [](VideoPredictor& predictor, std::int64_t frame, std::int64_t handle,
             const Array<double>& coords, const Array<std::int32_t>& labels,
             bool clear_old_points) {
            const VideoSession::PointPrompt prompt =
                point_prompt({frame, handle, clear_old_points, true}, coords, labels);
            const GilRelease release;
            predictor.use_phrases([&](VideoPhrases& phrases) { phrases.refine(prompt); });
          },
          py::arg("frame"), py::arg("handle"), py::arg("coords"), py::arg("labels"),
          py::arg("clear_old_points"))
      .def(
          "reserve_names",
          [](VideoPredictor& predictor, std::int64_t end) {
            predictor.use_phrases([&](VideoPhrases& phrases) { phrases.reserve_names(end); });
          },
          py::arg("end"))
      .def_property_readonly("num_phrases",
                             [](VideoPredictor& predictor) {
                               return predictor.use_phrases([](const VideoPhrases& phrases) {
                                 return phrases.phrases().size();
                               });
                             })
      .def_property_readonly("found", found)
      .def_property_readonly("phrases", phrases);
}

void register_calls(py::classh<VideoPredictor>& type) {
  using Released = py::call_guard<GilRelease>;
  type.def("begin", &VideoPredictor::begin)
      .def("commit", &VideoPredictor::commit)
      .def_property_readonly("published", published)
      .def_property_readonly("next_handle", &VideoPredictor::next_handle)
      .def_property_readonly("num_pushed", &VideoPredictor::num_pushed)
      .def("set_label", &VideoPredictor::set_label, py::arg("handle"), py::arg("label"))
      .def("prepare", &VideoPredictor::prepare, Released())
      .def("propagation", &VideoPredictor::propagation, py::arg("start"), py::arg("count"),
           py::arg("reverse"))
      .def(
          "next",
          [](VideoPredictor& predictor, Propagation& propagation) {
            const PropagationStep step = [&] {
              const GilRelease release;
              return predictor.next(propagation);
            }();
            return py::make_tuple(step.wanted, step.ready);
          },
          py::arg("propagation"))
      .def(
          "push",
          [](VideoPredictor& predictor, const py::array& image) {
            const ImageArray pixels(image);
            const GilRelease release;
            predictor.push(pixels.view());
          },
          py::arg("image"))
      .def("result", result, py::arg("frame"), py::arg("source"), py::arg("return_logits"));
}

}  // namespace

void register_video_predictor(py::module_& m) {
  using Released = py::call_guard<GilRelease>;
  py::classh<SessionState>(m, "SessionState");
  py::classh<Propagation>(m, "Propagation")
      .def_property_readonly("frame", [](const Propagation& x) { return x.frame; })
      .def_property_readonly("is_done", &Propagation::is_done)
      .def("end", [](Propagation& x) { x.ended = true; });
  py::classh<VideoPredictor> type(m, "VideoPredictor");
  type.def(py::init(&make_predictor), py::arg("model"), py::arg("num_threads"), py::arg("options"))
      .def_property_readonly("num_threads", &VideoPredictor::num_threads)
      .def_property_readonly("side", &VideoPredictor::side)
      .def_property_readonly("wants_squares", &VideoPredictor::wants_squares)
      .def_property_readonly("orig_hw", orig_hw)
      .def_property("num_frames", asking(&VideoSession::num_frames),
                    changing(&VideoSession::set_num_frames))
      .def_property(
          "state",
          [](VideoPredictor& predictor) {
            return predictor.use([](const VideoSession& session) { return session.state(); });
          },
          [](VideoPredictor& predictor, const SessionState& state) {
            SessionState copy = state;
            predictor.use([&](VideoSession& session) { session.restore(std::move(copy)); });
          })
      .def_property_readonly("objects", objects)
      .def_property_readonly("prompts", prompts)
      .def("has_frame", asking(&VideoSession::has_frame), py::arg("index"))
      .def("set_frame", set_frame, py::arg("index"), py::arg("image"),
           py::arg("orig_hw") = py::none())
      .def("pending_frames", asking(&VideoSession::pending_frames))
      .def("encode_pending", changing(&VideoSession::encode_pending), py::arg("frame"), Released())
      .def("preflight", changing(&VideoSession::preflight))
      .def("needs_frame", asking(&VideoSession::needs_frame), py::arg("index"))
      .def("track", changing(&VideoSession::track), py::arg("frame"), py::arg("reverse"),
           Released())
      .def("masks", masks, py::arg("frame"), py::arg("source"), py::arg("return_logits"))
      .def("export_state",
           [](VideoPredictor& predictor) { return predictor.use(export_video_state); })
      .def(
          "import_state",
          [](VideoPredictor& predictor, const py::dict& state, std::int64_t num_pushed) {
            predictor.change([&](VideoSession& session) { import_video_state(session, state); });
            predictor.adopt_counts(num_pushed);
          },
          py::arg("state"), py::arg("num_pushed") = 0);
  register_prompts(type);
  register_phrases(type);
  register_calls(type);
}

}  // namespace sam_rlx
