#include <set>

#include "bindings/config_dict.h"
#include "bindings/image_array.h"
#include "bindings/numpy.h"
#include "bindings/point_prompt.h"
#include "bindings/register.h"
#include "bindings/video_state.h"
#include "predictors/video_predictor.h"

namespace sam_rlx {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

std::optional<Size> size_of(const std::optional<Pair>& pair) {
  if (!pair) return std::nullopt;
  return Size{pair->first, pair->second};
}

VideoOptions options_of(const py::dict& options) {
  const py::dict others(options.attr("copy")());
  const py::object resize = others.attr("pop")("resize", "float");
  auto result =
      read_options<VideoOptions>(others, "VideoPredictor", "an option of the video predictor");
  result.resize = resize_named(resize.cast<std::string>());
  return result;
}

void set_frame(VideoPredictor& predictor, std::int64_t index, const py::array& image,
               const std::optional<Pair>& orig_hw) {
  const ImageArray pixels(image);
  const py::gil_scoped_release release;
  predictor.set_frame(index, pixels.view(), size_of(orig_hw));
}

bool add_mask(VideoPredictor& predictor, std::int64_t frame, std::int64_t handle,
              const Array<float>& mask) {
  const ConstView view = view_of(mask, "mask");
  if (view.shape.rank() != 2 || view.numel() == 0) fail("mask", "shape (H, W)", view.shape.str());
  const py::gil_scoped_release release;
  return predictor.add_mask(frame, handle, view);
}

VideoPredictor::Source source_of(const std::string& name) {
  if (name == "tracked") return VideoPredictor::Source::kTracked;
  if (name == "cond") return VideoPredictor::Source::kCond;
  if (name == "correction") return VideoPredictor::Source::kCorrection;
  if (name == "latest") return VideoPredictor::Source::kLatest;
  fail("source", "tracked, cond, correction or latest", name);
}

// Handles, masks (K, H, W), object scores.
py::tuple masks(VideoPredictor& predictor, std::int64_t frame, const std::string& source,
                bool return_logits) {
  const std::vector<VideoPredictor::Shown> objects = predictor.shown(frame, source_of(source));
  py::list handles, scores;
  for (const VideoPredictor::Shown& object : objects) {
    handles.append(object.handle);
    scores.append(object.output->object_score_logits);
  }
  if (!predictor.orig_hw()) fail<StateError>("masks", "a frame given before", "none");
  const Size size = *predictor.orig_hw();
  const Shape shape{static_cast<std::int64_t>(objects.size()), size.height, size.width};
  if (return_logits) {
    auto out = make_array<float>(shape);
    const View view = view_of(out);
    {
      const py::gil_scoped_release release;
      predictor.upscale(objects, view);
    }
    return py::make_tuple(handles, std::move(out), scores);
  }
  auto out = make_array<bool>(shape);
  auto* const pixels = reinterpret_cast<std::uint8_t*>(out.mutable_data());
  {
    const py::gil_scoped_release release;
    predictor.binarize(objects, pixels);
  }
  return py::make_tuple(handles, std::move(out), scores);
}

py::list objects(const VideoPredictor& predictor) {
  py::list handles;
  for (const auto& object : predictor.objects()) {
    if (!object->is_masklet) handles.append(object->handle);
  }
  return handles;
}

// Frames with prompts of an object, ascending; with outputs of prompts too.
py::dict prompts(const VideoPredictor& predictor) {
  py::dict result;
  for (const auto& object : predictor.objects()) {
    if (object->is_masklet) continue;
    std::set<std::int64_t> given = object->mask_frames, cond;
    for (const auto& entry : object->points) given.insert(entry.first);
    for (const std::int64_t frame : object->cond_frames()) cond.insert(frame);
    for (const auto& entry : object->temp_cond) cond.insert(entry.first);
    result[py::int_(object->handle)] =
        py::make_tuple(std::vector<std::int64_t>(given.begin(), given.end()),
                       std::vector<std::int64_t>(cond.begin(), cond.end()));
  }
  return result;
}

std::optional<Pair> orig_hw(const VideoPredictor& predictor) {
  const std::optional<Size> size = predictor.orig_hw();
  if (!size) return std::nullopt;
  return Pair{size->height, size->width};
}

}  // namespace

void register_video_predictor(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  py::classh<VideoPredictor>(m, "VideoPredictor")
      .def(py::init(
               [](std::shared_ptr<const Model> model, int num_threads, const py::dict& options) {
                 auto predictor = std::make_unique<VideoPredictor>(std::move(model), num_threads,
                                                                   options_of(options));
                 predictor->set_poll_interrupt(poll_python_signals);
                 return predictor;
               }),
           py::arg("model"), py::arg("num_threads"), py::arg("options"))
      .def_property_readonly("num_threads", &VideoPredictor::num_threads)
      .def_property_readonly("side", &VideoPredictor::side)
      .def_property_readonly("orig_hw", orig_hw)
      .def_property("num_frames", &VideoPredictor::num_frames, &VideoPredictor::set_num_frames)
      .def_property_readonly("objects", objects)
      .def_property_readonly("prompts", prompts)
      .def("has_frame", &VideoPredictor::has_frame, py::arg("index"))
      .def("set_frame", set_frame, py::arg("index"), py::arg("image"),
           py::arg("orig_hw") = py::none())
      .def(
          "add_points",
          [](VideoPredictor& predictor, std::int64_t frame, std::int64_t handle,
             const Array<double>& coords, const Array<std::int32_t>& labels, bool clear_old_points,
             bool normalize_coords) {
            const VideoPredictor::PointPrompt prompt =
                point_prompt({frame, handle, clear_old_points, normalize_coords}, coords, labels);
            const py::gil_scoped_release release;
            return predictor.add_points(prompt);
          },
          py::arg("frame"), py::arg("handle"), py::arg("coords"), py::arg("labels"),
          py::arg("clear_old_points") = true, py::arg("normalize_coords") = true)
      .def("add_mask", add_mask, py::arg("frame"), py::arg("handle"), py::arg("mask"))
      .def("clear_prompts", &VideoPredictor::clear_prompts, py::arg("frame"), py::arg("handle"))
      .def("remove_object", &VideoPredictor::remove_object, py::arg("handle"))
      .def("has_new_prompt", &VideoPredictor::has_new_prompt, py::arg("frame"))
      .def("reset", &VideoPredictor::reset)
      .def("pending_frames", &VideoPredictor::pending_frames)
      .def("encode_pending", &VideoPredictor::encode_pending, py::arg("frame"), Released())
      .def("preflight", &VideoPredictor::preflight)
      .def("needs_frame", &VideoPredictor::needs_frame, py::arg("index"))
      .def("track", &VideoPredictor::track, py::arg("frame"), py::arg("reverse"), Released())
      .def("masks", masks, py::arg("frame"), py::arg("source"), py::arg("return_logits"))
      .def("export_state", export_video_state)
      .def("import_state", import_video_state, py::arg("state"));
}

}  // namespace sam_rlx
