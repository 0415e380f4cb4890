#include <pybind11/stl.h>

#include "bindings/masklet_arrays.h"
#include "bindings/numpy.h"
#include "bindings/point_prompt.h"
#include "bindings/register.h"
#include "predictors/video/video_predictor.h"

namespace sam_rlx {
namespace {

using ObjIds = std::vector<std::int64_t>;

// A tracker of its own beside a session: each call is one on the session, and one that fails leaves
// both as they were.
class BoundTracker {
 public:
  BoundTracker(std::shared_ptr<VideoPredictor> video, MaskletPrompt prompt,
               const MaskletConfig& config)
      : video_(std::move(video)), tracker_(video_->change([&](VideoSession& session) {
          return MaskletTracker(session, std::move(prompt), config);
        })) {}

  template <class Work>
  auto change(const Work& work) {
    return video_->change([&](VideoSession&) {
      MaskletState before = tracker_.state();
      try {
        return work(tracker_);
      } catch (...) {
        tracker_.restore(std::move(before));
        throw;
      }
    });
  }
  template <class Work>
  auto use(const Work& work) {
    return video_->use([&](VideoSession&) { return work(tracker_); });
  }

 private:
  std::shared_ptr<VideoPredictor> video_;
  MaskletTracker tracker_;
};

void set_examples(BoundTracker& bound, std::int64_t frame, const Array<double>& boxes,
                  const Array<std::int32_t>& labels, bool fractions) {
  MaskletExamples examples = examples_of(boxes, labels, fractions);
  bound.change([&](MaskletTracker& tracker) { tracker.set_examples(frame, std::move(examples)); });
}

void refine(BoundTracker& bound, const PointArguments& arguments, const Array<double>& coords,
            const Array<std::int32_t>& labels, bool may_be_new) {
  const VideoSession::PointPrompt prompt = point_prompt(arguments, coords, labels);
  const GilRelease release;
  bound.change([&](MaskletTracker& tracker) { tracker.refine(prompt, may_be_new); });
}

// Objects, masks (K, H, W) and scores.
py::tuple results(BoundTracker& bound, std::int64_t frame) {
  DrawnMasklets drawn =
      bound.use([&](const MaskletTracker& tracker) { return draw_masklets(tracker, frame); });
  return py::make_tuple(drawn.seen.obj_ids, std::move(drawn.masks), drawn.seen.scores);
}

// Inclusive (x0, y0, x1, y1) of what is seen, before masks are cut where they overlap.
py::array_t<std::int64_t> boxes(BoundTracker& bound, std::int64_t frame) {
  const MaskletTracker::Seen seen =
      bound.use([&](const MaskletTracker& tracker) { return tracker.seen(frame); });
  auto out = make_array<std::int64_t>({static_cast<std::int64_t>(seen.boxes.size()), 4});
  std::int64_t* position = out.mutable_data();
  for (const PixelBox& box : seen.boxes) {
    for (const std::int64_t side : {box.x0, box.y0, box.x1, box.y1}) *position++ = side;
  }
  return out;
}

void register_masklet_prompts(py::classh<BoundTracker>& type) {
  type.def("set_examples", set_examples, py::arg("frame"), py::arg("boxes"), py::arg("labels"),
           py::arg("fractions") = false)
      .def(
          "refine",
          [](BoundTracker& bound, std::int64_t frame, std::int64_t obj_id,
             const Array<double>& coords, const Array<std::int32_t>& labels, bool clear_old_points,
             bool normalize_coords, bool may_be_new) {
            refine(bound, {frame, obj_id, clear_old_points, normalize_coords}, coords, labels,
                   may_be_new);
          },
          py::arg("frame"), py::arg("obj_id"), py::arg("coords"), py::arg("labels"),
          py::arg("clear_old_points") = true, py::arg("normalize_coords") = true,
          py::arg("may_be_new") = false)
      .def(
          "remove_object",
          [](BoundTracker& bound, std::int64_t obj_id) {
            bound.change([&](MaskletTracker& tracker) { tracker.remove_object(obj_id); });
          },
          py::arg("obj_id"));
}

}  // namespace

void register_masklet_tracker(py::module_& m) {
  using Released = py::call_guard<GilRelease>;
  py::classh<MaskletState>(m, "MaskletState");
  py::classh<BoundTracker> type(m, "MaskletTracker");
  type.def(py::init([](std::shared_ptr<VideoPredictor> video, ObjIds ids, bool has_text,
                       const py::dict& options) {
             return std::make_unique<BoundTracker>(std::move(video),
                                                   MaskletPrompt{std::move(ids), has_text},
                                                   masklet_config(options));
           }),
           py::arg("video"), py::arg("ids"), py::arg("has_text"), py::arg("options"))
      .def_property_readonly(
          "obj_ids",
          [](BoundTracker& bound) {
            return bound.use([](const MaskletTracker& x) { return x.obj_ids(); });
          })
      .def_property(
          "state",
          [](BoundTracker& bound) {
            return bound.use([](const MaskletTracker& x) { return x.state(); });
          },
          [](BoundTracker& bound, const MaskletState& state) {
            bound.use([&](MaskletTracker& x) { x.restore(state); });
          })
      .def_property_readonly(
          "num_dropped",
          [](BoundTracker& bound) {
            return bound.use([](const MaskletTracker& x) { return x.num_dropped(); });
          })
      .def(
          "det_track_one_frame",
          [](BoundTracker& bound, std::int64_t frame, bool reverse, std::int64_t next_obj_id) {
            return bound.change([&](MaskletTracker& tracker) {
              return tracker.det_track_one_frame({frame, reverse, next_obj_id});
            });
          },
          py::arg("frame"), py::arg("reverse"), py::arg("next_obj_id"), Released())
      .def(
          "track_refined",
          [](BoundTracker& bound, std::int64_t frame, bool reverse, const ObjIds& obj_ids) {
            bound.change(
                [&](MaskletTracker& tracker) { tracker.track_refined(frame, reverse, obj_ids); });
          },
          py::arg("frame"), py::arg("reverse"), py::arg("obj_ids"), Released())
      .def(
          "has_results",
          [](BoundTracker& bound, std::int64_t frame) {
            return bound.use([&](const MaskletTracker& x) { return x.has_results(frame); });
          },
          py::arg("frame"))
      .def("results", results, py::arg("frame"))
      .def("boxes", boxes, py::arg("frame"));
  register_masklet_prompts(type);
}

}  // namespace sam_rlx
