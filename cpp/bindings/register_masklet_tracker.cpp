#include <pybind11/stl.h>

#include <optional>

#include "bindings/config_dict.h"
#include "bindings/numpy.h"
#include "bindings/point_prompt.h"
#include "bindings/register.h"
#include "predictors/video/masklet_tracker.h"

namespace sam_rlx {
namespace {

using ObjIds = std::vector<std::int64_t>;

void set_examples(MaskletTracker& tracker, std::int64_t frame, const Array<double>& boxes,
                  const Array<std::int32_t>& labels, bool fractions) {
  if (boxes.ndim() != 2 || boxes.shape(1) != 4 || labels.ndim() != 1 ||
      labels.shape(0) != boxes.shape(0)) {
    fail("boxes", "(N, 4) with N labels", "other shapes");
  }
  tracker.set_examples(frame, {.boxes = {boxes.data(), boxes.data() + boxes.size()},
                               .labels = {labels.data(), labels.data() + labels.size()},
                               .fractions = fractions});
}

void refine(MaskletTracker& tracker, const PointArguments& arguments, const Array<double>& coords,
            const Array<std::int32_t>& labels, bool may_be_new) {
  const VideoSession::PointPrompt prompt = point_prompt(arguments, coords, labels);
  const GilRelease release;
  tracker.refine(prompt, may_be_new);
}

// Objects, masks (K, H, W) and scores.
py::tuple results(MaskletTracker& tracker, std::int64_t frame) {
  MaskletTracker::Seen seen;
  py::array_t<bool> masks;
  std::optional<GilRelease> drawing;  // last, since it ends first
  tracker.draw(frame, [&](const MaskletTracker::Seen& found) {
    seen = found;
    const auto count = static_cast<std::int64_t>(seen.obj_ids.size());
    masks = make_array<bool>({count, seen.hw.height, seen.hw.width});
    auto* const pixels = reinterpret_cast<std::uint8_t*>(masks.mutable_data());
    drawing.emplace();
    return pixels;
  });
  drawing.reset();
  return py::make_tuple(seen.obj_ids, std::move(masks), seen.scores);
}

// Inclusive (x0, y0, x1, y1) of what is seen, before masks are cut where they overlap.
py::array_t<std::int64_t> boxes(const MaskletTracker& tracker, std::int64_t frame) {
  const MaskletTracker::Seen seen = tracker.seen(frame);
  auto out = make_array<std::int64_t>({static_cast<std::int64_t>(seen.boxes.size()), 4});
  std::int64_t* position = out.mutable_data();
  for (const PixelBox& box : seen.boxes) {
    for (const std::int64_t side : {box.x0, box.y0, box.x1, box.y1}) *position++ = side;
  }
  return out;
}

}  // namespace

void register_masklet_tracker(py::module_& m) {
  using Released = py::call_guard<GilRelease>;
  py::classh<MaskletState>(m, "MaskletState");
  py::classh<MaskletTracker>(m, "MaskletTracker")
      .def(py::init([](std::shared_ptr<VideoPredictor> video, ObjIds ids, bool has_phrase,
                       const py::dict& options) {
             return std::make_unique<MaskletTracker>(
                 std::move(video), MaskletPrompt{std::move(ids), has_phrase},
                 read_options<MaskletConfig>(options, "MaskletTracker",
                                             "an option of upstream's video model"));
           }),
           py::arg("video"), py::arg("ids"), py::arg("has_phrase"), py::arg("options"))
      .def_property_readonly("obj_ids", &MaskletTracker::obj_ids)
      .def_property("state", &MaskletTracker::state, &MaskletTracker::restore)
      .def_property_readonly("num_dropped", &MaskletTracker::num_dropped)
      .def_property_readonly(
          "hotstart_delay",
          [](const MaskletTracker& tracker) { return tracker.config().hot_start.hotstart_delay; })
      .def_property_readonly("seconds",
                             [](const MaskletTracker& tracker) {
                               using namespace py::literals;
                               const MaskletTracker::Seconds s = tracker.seconds();
                               return py::dict("detector"_a = s.detector, "tracker"_a = s.tracker,
                                               "association"_a = s.association);
                             })
      .def("set_examples", set_examples, py::arg("frame"), py::arg("boxes"), py::arg("labels"),
           py::arg("fractions") = false)
      .def(
          "det_track_one_frame",
          [](MaskletTracker& tracker, std::int64_t frame, bool reverse, std::int64_t next_obj_id) {
            return tracker.det_track_one_frame({frame, reverse, next_obj_id});
          },
          py::arg("frame"), py::arg("reverse"), py::arg("next_obj_id"), Released())
      .def(
          "track_refined",
          [](MaskletTracker& tracker, std::int64_t frame, bool reverse, const ObjIds& obj_ids) {
            tracker.track_refined(frame, reverse, obj_ids);
          },
          py::arg("frame"), py::arg("reverse"), py::arg("obj_ids"), Released())
      .def(
          "refine",
          [](MaskletTracker& tracker, std::int64_t frame, std::int64_t obj_id,
             const Array<double>& coords, const Array<std::int32_t>& labels, bool clear_old_points,
             bool normalize_coords, bool may_be_new) {
            refine(tracker, {frame, obj_id, clear_old_points, normalize_coords}, coords, labels,
                   may_be_new);
          },
          py::arg("frame"), py::arg("obj_id"), py::arg("coords"), py::arg("labels"),
          py::arg("clear_old_points") = true, py::arg("normalize_coords") = true,
          py::arg("may_be_new") = false)
      .def("remove_object", &MaskletTracker::remove_object, py::arg("obj_id"))
      .def("has_results", &MaskletTracker::has_results, py::arg("frame"))
      .def("drop_results_before", &MaskletTracker::drop_results_before, py::arg("frame"))
      .def("results", results, py::arg("frame"))
      .def("boxes", boxes, py::arg("frame"));
}

}  // namespace sam_rlx
