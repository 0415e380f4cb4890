#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "bindings/config_dict.h"
#include "bindings/numpy.h"
#include "core/context.h"
#include "kernels/kernel_table.h"
#include "masks/iou.h"
#include "masks/overlap.h"
#include "masks/small_regions.h"
#include "models/sam3/memory_selection.h"
#include "predictors/video/masklet_association.h"
#include "predictors/video/masklet_hot_start.h"
#include "testing/register.h"

// Rules by which objects that a text names are followed.

namespace sam_rlx {
namespace {

using ObjIds = std::vector<std::int64_t>;
using Scores = std::vector<float>;

template <class Use>
auto with_context(int num_threads, const Use& use) {
  Workspace workspace;
  Context ctx{.kernels = generic_kernels(), .workspace = workspace, .num_threads = num_threads};
  return use(ctx);
}

py::array_t<float> copied(const Array<float>& source) {
  auto out = make_array<float>(shape_of(source, "masks"));
  std::copy_n(source.data(), source.size(), out.mutable_data());
  return out;
}

py::array_t<float> iou_matrix(const Array<float>& a, const Array<float>& b, int num_threads) {
  return with_context(num_threads, [&](Context& ctx) {
    const BitMasks x(ctx, view_of(a, "a")), y(ctx, view_of(b, "b"));
    const std::vector<float> ious = mask_iou(ctx, x, y);
    auto out = make_array<float>({x.count(), y.count()});
    std::copy(ious.begin(), ious.end(), out.mutable_data());
    return out;
  });
}

py::dict association_dict(const Association& found) {
  py::dict out;
  out["new_detections"] = found.new_detections;
  out["unmatched"] = found.unmatched;
  out["empty"] = found.empty;
  out["matched"] = found.matched;
  out["confident"] = found.confident;
  return out;
}

py::dict associate(const Array<float>& detections, const Scores& scores,
                   const Array<float>& masklets, const ObjIds& obj_ids, int num_threads,
                   const ObjIds& detection_texts, const ObjIds& masklet_texts) {
  return with_context(num_threads, [&](Context& ctx) {
    return association_dict(
        associate_det_trk(ctx, {}, {view_of(detections, "detections"), scores, {}, detection_texts},
                          {view_of(masklets, "masklets"), obj_ids, masklet_texts}));
  });
}

// The masklets removed and suppressed on one frame.
py::tuple process(HotStart& hot_start, std::int64_t frame_idx, bool reverse,
                  const py::dict& association, const ObjIds& new_obj_ids, bool only_counts) {
  Association found;
  found.matched = association["matched"].cast<std::vector<ObjIds>>();
  found.unmatched = association["unmatched"].cast<ObjIds>();
  found.empty = association["empty"].cast<ObjIds>();
  const HotStart::Result result =
      hot_start.process({frame_idx, reverse, found, new_obj_ids, only_counts});
  return py::make_tuple(result.removed, result.suppressed);
}

py::tuple suppress_occluded(const Array<float>& masks, const ObjIds& obj_ids,
                            const std::set<std::int64_t>& removed, const LastOccluded& before,
                            std::int64_t frame_idx, bool reverse, int num_threads) {
  auto out = copied(masks);
  const LastOccluded after = with_context(num_threads, [&](Context& ctx) {
    return suppress_recently_occluded_(ctx, view_of(out),
                                       {.frame_idx = frame_idx,
                                        .reverse = reverse,
                                        .obj_ids = obj_ids,
                                        .removed = removed,
                                        .before = before});
  });
  return py::make_tuple(out, after);
}

py::array_t<float> suppress_shrunk(const Array<float>& masks, int num_threads) {
  auto out = copied(masks);
  with_context(num_threads, [&](Context& ctx) {
    suppress_shrunk_masks_(ctx, view_of(out));
    return 0;
  });
  return out;
}

py::array_t<bool> keep_best(const Array<bool>& masks, const Scores& scores, int num_threads) {
  const std::int64_t positions = masks.shape(1) * masks.shape(2);
  auto out = make_array<bool>({masks.shape(0), masks.shape(1), masks.shape(2)});
  std::copy_n(masks.data(), masks.size(), out.mutable_data());
  with_context(num_threads, [&](Context& ctx) {
    keep_best_masklets_(ctx, reinterpret_cast<std::uint8_t*>(out.mutable_data()), positions,
                        scores);
    return 0;
  });
  return out;
}

py::array_t<float> remove_small_components(const Array<float>& logits, std::int64_t max_area) {
  auto out = copied(logits);
  remove_small_components_(view_of(out), max_area);
  return out;
}

float mem_score(const Scores& object_score_logits, const Scores& ious) {
  std::vector<sam3::ObjectScore> objects;
  for (std::size_t i = 0; i < ious.size(); ++i) {
    objects.push_back({object_score_logits.at(i), ious[i]});
  }
  return sam3::cal_mem_score(objects);
}

ObjIds chosen_frames(std::int64_t frame_idx, std::int64_t num_frames, bool reverse,
                     const ObjIds& frames, const Scores& scores) {
  std::vector<sam3::ScoredFrame> behind;  // the nearest first
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (reverse ? frames[i] > frame_idx : frames[i] < frame_idx) {
      behind.insert(reverse ? behind.end() : behind.begin(), {frames[i], scores.at(i)});
    }
  }
  auto next = behind.begin();
  return sam3::frame_filter(
      {.frame_idx = frame_idx, .num_frames = num_frames, .track_in_reverse = reverse},
      [&]() -> std::optional<sam3::ScoredFrame> {
        if (next == behind.end()) return std::nullopt;
        return *next++;
      });
}

}  // namespace

void register_masklets(py::module_& m) {
  m.def("mask_iou", iou_matrix, py::arg("a"), py::arg("b"), py::arg("num_threads") = 1);
  m.def(
      "nms_masks",
      [](const Scores& probs, const Array<float>& masks, float prob, float iou, int num_threads) {
        return with_context(num_threads, [&](Context& ctx) {
          return nms_masks(ctx, probs, view_of(masks, "masks"), {prob, iou});
        });
      },
      py::arg("probs"), py::arg("masks"), py::arg("prob_threshold"), py::arg("iou_threshold"),
      py::arg("num_threads") = 1);
  m.def("associate_det_trk", associate, py::arg("detections"), py::arg("scores"),
        py::arg("masklets"), py::arg("obj_ids"), py::arg("num_threads") = 1,
        py::arg("detection_texts") = ObjIds{}, py::arg("masklet_texts") = ObjIds{});
  m.def(
      "limit_new_detections",
      [](const ObjIds& detections, const Scores& scores, std::int64_t most) {
        return limit_new_detections(detections, scores, most);
      },
      py::arg("detections"), py::arg("scores"), py::arg("most"));
  py::classh<HotStart>(m, "HotStart")
      .def(py::init([](const py::dict& options) {
             return std::make_unique<HotStart>(
                 read_options<HotStartConfig>(options, "HotStart", "an option of hot start"));
           }),
           py::arg("options"))
      .def("process", process, py::arg("frame_idx"), py::arg("reverse"), py::arg("association"),
           py::arg("new_obj_ids"), py::arg("only_counts") = false)
      .def("keep_alive", &HotStart::keep_alive, py::arg("obj_id"));
  m.def("suppress_recently_occluded", suppress_occluded, py::arg("masks"), py::arg("obj_ids"),
        py::arg("removed"), py::arg("before"), py::arg("frame_idx"), py::arg("reverse") = false,
        py::arg("num_threads") = 1);
  m.def("suppress_shrunk_masks", suppress_shrunk, py::arg("masks"), py::arg("num_threads") = 1);
  m.def("keep_best_masklets", keep_best, py::arg("masks"), py::arg("scores"),
        py::arg("num_threads") = 1);
  m.def("remove_small_components", remove_small_components, py::arg("logits"), py::arg("max_area"));
  m.def("cal_mem_score", mem_score, py::arg("object_score_logits"), py::arg("ious"));
  m.def("frame_filter", chosen_frames, py::arg("frame_idx"), py::arg("num_frames"),
        py::arg("reverse"), py::arg("frames"), py::arg("scores"));
}

}  // namespace sam_rlx
