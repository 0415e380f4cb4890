#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/numpy.h"
#include "core/context.h"
#include "kernels/kernel_table.h"
#include "masks/geometry.h"
#include "predictors/video/distractor_memory.h"
#include "predictors/video/memory_rule.h"
#include "predictors/video/motion_memory.h"
#include "testing/register.h"

// Rules of memory without a network.

namespace sam_rlx {
namespace {

// ---------------------------------------------------------------- their parts

// Boxes (x0, y0, x1, y1) of frames; an empty one: the frame is only predicted. Of each frame after
// the first: position and velocity of the four numbers, then their variances, position, both,
// velocity; and the IoU of the prediction with the box.
std::vector<std::vector<double>> box_motion(const std::vector<std::vector<std::int64_t>>& boxes) {
  const auto box_of = [](const std::vector<std::int64_t>& b) {
    return PixelBox{b.at(0), b.at(1), b.at(2), b.at(3)};
  };
  BoxMotion motion = start_motion(box_shape(box_of(boxes.at(0))));
  std::vector<std::vector<double>> out;
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    motion.predict_();
    const double iou = boxes[i].empty() ? 0.0 : predicted_iou(motion.shape(), box_of(boxes[i]));
    if (!boxes[i].empty()) motion.update_(box_shape(box_of(boxes[i])));
    std::vector<double>& row = out.emplace_back();
    for (double BoxMotion::Axis::* const value :
         {&BoxMotion::Axis::position, &BoxMotion::Axis::velocity,
          &BoxMotion::Axis::position_variance, &BoxMotion::Axis::covariance,
          &BoxMotion::Axis::velocity_variance}) {
      for (const BoxMotion::Axis& axis : motion.axes) row.push_back(axis.*value);
    }
    row.push_back(iou);
  }
  return out;
}

std::vector<std::optional<double>> recent_medians(const std::vector<std::int64_t>& areas) {
  RecentAreas recent;
  std::vector<std::optional<double>> out;
  for (const std::int64_t area : areas) {
    recent.add(area);
    out.push_back(recent.median());
  }
  return out;
}

// ---------------------------------------------------------------- their decisions

std::unique_ptr<const MemoryRule> rule_named(const std::string& name, const std::string& variant) {
  if (name == "samurai") return std::make_unique<const MotionMemory>(variant);
  return std::make_unique<const DistractorMemory>();
}

// An object that a mask, or with `clicked` a click, shows on the first of `frames`, and that is
// tracked on the others, in their order. low_res (T, M, h, h) logits, ious (T, M), scores (T,):
// what the decoder gives on each frame, whatever it remembers. Of each frame after the first: the
// number of the mask, whether the frame was added, and what it attended to.
std::vector<py::dict> follow(const std::string& name, const std::string& variant,
                             const std::vector<std::int64_t>& frames, const Array<float>& low_res,
                             const Array<float>& ious, const std::vector<float>& scores,
                             std::int64_t side, std::int64_t height, std::int64_t width,
                             std::int64_t num_frames, bool clicked) {
  const std::unique_ptr<const MemoryRule> rule = rule_named(name, variant);
  Tensor copied = Tensor::copy_of(view_of(low_res, "low_res"));
  const View all = copied.view();
  const std::int64_t count = all.shape[1], low = all.shape[2];
  const MaskGeometry geometry{
      .low_height = low, .low_width = low, .height = height, .width = width};
  Workspace workspace;
  Context ctx{.kernels = generic_kernels(), .workspace = workspace, .num_threads = 1};
  const sam2::MemoryBankConfig bank;
  TrackedObject object;
  FrameOutput shown{.low_res_mask = Tensor::copy_of(all[0][0])};
  if (clicked) shown.rule_state = rule->after_prompt(ctx, all[0][0], side);
  object.cond_frame_outputs.set(frames.at(0), std::move(shown));
  std::vector<py::dict> out;
  for (std::size_t k = 1; k < frames.size(); ++k) {
    const Workspace::Scope scratch(ctx.workspace);
    const std::int64_t t = frames[k];
    const bool reverse = frames[k] < frames[k - 1];
    const auto row = static_cast<std::int64_t>(k);
    const sam2::MemoryChoice choice = rule->choose_memory(
        {.bank = bank, .object = object, .frame = t, .reverse = reverse, .num_frames = num_frames});
    const View logits = all[row];
    if (!(scores[k] > rule->min_object_score())) {
      std::fill_n(logits.data, logits.numel(), sam2::kNoObjScore);
    }
    const MemoryRule::Masks masks{
        .logits = logits,
        .iou_predictions = {ious.data() + row * count, static_cast<std::size_t>(count)},
        .side = side};
    const FrameOutput* const before = object.tracked_output(frames[k - 1]);
    RuleState state;
    if (before->rule_state != nullptr) state = *before->rule_state;
    const std::int64_t chosen = rule->choose_mask(ctx, masks, state);
    const bool added = rule->adds_frame(
        {.masks = masks,
         .chosen = chosen,
         .frame = t,
         .height = height,
         .width = width,
         .at_video_size =
             [&](std::int64_t number) {
               std::vector<std::uint8_t> bits(static_cast<std::size_t>(height * width));
               binarize_masks(ctx, logits[number].reshape({1, low, low}), geometry, 0.0F,
                              bits.data());
               return bits;
             }},
        state);
    (added ? object.cond_frame_outputs : object.non_cond_frame_outputs)
        .set(t,
             FrameOutput{.low_res_mask = Tensor::copy_of(logits[chosen]),
                         .object_score_logits = scores[k],
                         .iou_prediction = masks.iou_predictions[static_cast<std::size_t>(chosen)],
                         .is_added = added,
                         .rule_state = std::make_shared<const RuleState>(state)});
    std::vector<std::tuple<std::int64_t, bool, std::int64_t>> maps, pointers;
    for (const auto& map : choice.maps)
      maps.emplace_back(map.frame, map.conditioning, map.tpos_row);
    for (const auto& pointer : choice.pointers) {
      pointers.emplace_back(pointer.frame, pointer.conditioning, pointer.distance);
    }
    py::dict& found = out.emplace_back();
    found["chosen"] = chosen;
    found["added"] = added;
    found["maps"] = maps;
    found["pointers"] = pointers;
    found["distance_scale"] = choice.distance_scale;
  }
  return out;
}

}  // namespace

void register_memory_rules(py::module_& m) {
  m.def("box_motion", box_motion);
  m.def("recent_medians", recent_medians);
  m.def("follow_by_rule", follow, py::arg("rule"), py::arg("variant"), py::arg("frames"),
        py::arg("low_res"), py::arg("ious"), py::arg("scores"), py::arg("side"), py::arg("height"),
        py::arg("width"), py::arg("num_frames"), py::arg("clicked"));
}

}  // namespace sam_rlx
