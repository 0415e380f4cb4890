#include <pybind11/stl.h>

#include <algorithm>

#include "bindings/config_dict.h"
#include "bindings/image_array.h"
#include "bindings/masklet_arrays.h"
#include "bindings/point_prompt.h"
#include "bindings/text_actions.h"
#include "bindings/video_calls.h"

// The calls of users on a session, and what texts add to it.

namespace sam_rlx {
namespace {

// Those that texts named, by number, with their names.
py::dict found(VideoPredictor& predictor) {
  py::dict names;
  predictor.use_texts([&](const VideoTexts& texts) {
    for (const VideoTexts::Text& text : texts.texts()) {
      for (const std::int64_t handle : text.tracker->obj_ids()) {
        names[py::int_(handle)] = texts.name_of(handle);
      }
    }
  });
  return names;
}

// Of each text: seconds of its last frame, objects that were clicked, frames with results.
py::list texts(VideoPredictor& predictor) {
  using namespace py::literals;
  py::list list;
  predictor.use_texts([&](const VideoTexts& all) {
    for (const VideoTexts::Text& text : all.texts()) {
      const MaskletTracker::Seconds& s = text.tracker->seconds();
      py::list refined, frames;
      for (const auto& entry : text.refined) refined.append(entry.first);
      for (const auto& entry : text.tracker->state().results) frames.append(entry.frame);
      list.append(
          py::dict("seconds"_a = py::dict("detector"_a = s.detector, "tracker"_a = s.tracker,
                                          "association"_a = s.association),
                   "refined"_a = refined, "frames"_a = frames));
    }
  });
  return list;
}

// Frames pushed, size, numbers of objects that prompts show, names of those that texts name.
py::tuple published(const VideoPredictor& predictor) {
  const VideoPredictor::Published what = predictor.published();
  std::optional<std::pair<std::int64_t, std::int64_t>> hw;
  if (what.orig_hw) hw = {what.orig_hw->height, what.orig_hw->width};
  return py::make_tuple(what.num_pushed, hw, what.handles, what.found_names);
}

// Of each text, its number, and what is seen of it: names, masks (K, H, W), scores.
py::list found_on(VideoPredictor& predictor, std::int64_t frame) {
  py::list list;
  predictor.use_texts([&](const VideoTexts& texts) {
    for (const VideoTexts::Text& text : texts.texts()) {
      DrawnMasklets drawn = draw_masklets(*text.tracker, frame);
      std::vector<std::int64_t> names;
      for (const std::int64_t handle : drawn.seen.obj_ids) names.push_back(texts.name_of(handle));
      list.append(py::make_tuple(names, std::move(drawn.masks), drawn.seen.scores));
    }
  });
  return list;
}

// All that is known of a frame: numbers, masks (K, H, W), logits if asked for, scores, `found_on`.
py::tuple result(VideoPredictor& predictor, std::int64_t frame, const std::string& source,
                 bool return_logits) {
  py::tuple shown = masks_on_frame(predictor, frame, source, return_logits);
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

void register_texts(py::classh<VideoPredictor>& type) {
  using Released = py::call_guard<GilRelease>;
  type.def(
          "add_text",
          [](VideoPredictor& predictor, std::vector<std::int64_t> ids, bool has_text,
             const py::dict& options, std::int64_t first) {
            const MaskletConfig config = masklet_config(options);
            predictor.use_texts(
                [&](VideoTexts& texts) { texts.add({std::move(ids), has_text}, config, first); });
          },
          py::arg("ids"), py::arg("has_text"), py::arg("options"), py::arg("first"))
      .def(
          "set_examples",
          [](VideoPredictor& predictor, std::int64_t frame, const Array<double>& boxes,
             const Array<std::int32_t>& labels, bool fractions) {
            MaskletExamples examples = examples_of(boxes, labels, fractions);
            predictor.use_texts([&](VideoTexts& texts) {
              if (texts.empty()) fail<StateError>("set_examples", "a text", "none");
              texts.texts().back().tracker->set_examples(frame, std::move(examples));
            });
          },
          py::arg("frame"), py::arg("boxes"), py::arg("labels"), py::arg("fractions") = false)
      .def("search", &VideoPredictor::search, py::arg("frame"), Released())
      .def(
          "refine",
          [](VideoPredictor& predictor, std::int64_t frame, std::int64_t handle,
             const Array<double>& coords, const Array<std::int32_t>& labels, bool clear_old_points,
             bool normalize_coords, bool may_be_new) {
            const PointPrompt prompt =
                point_prompt({frame, handle, clear_old_points, normalize_coords}, coords, labels);
            const GilRelease release;
            predictor.refine(prompt, may_be_new);
          },
          py::arg("frame"), py::arg("handle"), py::arg("coords"), py::arg("labels"),
          py::arg("clear_old_points"), py::arg("normalize_coords") = true,
          py::arg("may_be_new") = false)
      .def(
          "reserve_names",
          [](VideoPredictor& predictor, std::int64_t end) {
            predictor.use_texts([&](VideoTexts& texts) { texts.reserve_names(end); });
          },
          py::arg("end"))
      .def_property_readonly("num_texts",
                             [](VideoPredictor& predictor) {
                               return predictor.use_texts(
                                   [](const VideoTexts& texts) { return texts.texts().size(); });
                             })
      .def_property_readonly("found", found)
      .def_property_readonly("texts", texts);
}

void register_calls(py::classh<VideoPredictor>& type) {
  using Released = py::call_guard<GilRelease>;
  type.def("begin", &VideoPredictor::begin)
      .def("commit", &VideoPredictor::commit)
      .def_property_readonly("published", published)
      .def_property_readonly("next_handle", &VideoPredictor::next_handle)
      .def_property_readonly("num_pushed", &VideoPredictor::num_pushed)
      .def("set_label", &VideoPredictor::set_label, py::arg("handle"), py::arg("label"))
      .def("prepare", &VideoPredictor::prepare, py::arg("allow_unprompted") = false, Released())
      .def(
          "propagation",
          [](VideoPredictor& predictor, std::optional<std::int64_t> start,
             std::optional<std::int64_t> count, bool reverse,
             bool waits) { return predictor.propagation({start, count, reverse, waits}); },
          py::arg("start"), py::arg("count"), py::arg("reverse"), py::arg("waits") = false)
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

void register_video_calls(py::classh<VideoPredictor>& type) {
  register_texts(type);
  register_calls(type);
  register_text_actions(type);
}

}  // namespace sam_rlx
