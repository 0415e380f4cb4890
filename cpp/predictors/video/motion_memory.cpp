#include "predictors/video/motion_memory.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/resize.h"

namespace sam_rlx {
namespace {

// Released values. Upstream: sam2/sam2/configs/samurai.
constexpr float kMinObjectScore = -1.0F;
constexpr std::int64_t kStableFrames = 15;
constexpr float kStableIou = 0.3F;
constexpr double kMotionWeight = 0.25, kMotionWeightLarge = 0.15;  // of hiera_l
constexpr float kRememberedIou = 0.5F, kRememberedScore = 0.0F;

// The box of a mask (4g, 4g) at the side of the network's input; all 0 without a pixel.
PixelBox box_at_input(Context& ctx, ConstView mask, std::int64_t side) {
  const Workspace::Scope scratch(ctx.workspace);
  const View large = ctx.workspace.floats({1, side, side});
  resize_bilinear(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), large);
  PixelBox box{side, side, -1, -1};
  const float* next = large.data;
  for (std::int64_t y = 0; y < side; ++y) {
    for (std::int64_t x = 0; x < side; ++x) {
      if (!(*next++ > 0.0F)) continue;
      box = {std::min(box.x0, x), std::min(box.y0, y), std::max(box.x1, x), y};
    }
  }
  return box.x1 < 0 ? PixelBox{} : box;
}

bool is_remembered(const FrameOutput& output) {
  const bool fits = output.rule_state == nullptr || !output.rule_state->is_off_path;
  return output.iou_prediction > kRememberedIou && output.object_score_logits > kRememberedScore &&
         fits;
}

}  // namespace

MotionMemory::MotionMemory(const std::string& variant)
    : motion_weight_(variant == "hiera_l" ? kMotionWeightLarge : kMotionWeight) {}

float MotionMemory::min_object_score() const { return kMinObjectScore; }

// Not the first frame with prompts, nor the one after it; the neighbour in any case. The newest is
// the last.
std::vector<std::int64_t> MotionMemory::far_frames(const Query& query) const {
  const FrameOutputs& outputs = query.object.non_cond_frame_outputs;
  const std::int64_t sign = query.sign(), neighbour = query.frame - sign;
  const std::optional<std::int64_t> first = first_prompted(query.object, query.reverse);
  const auto most = static_cast<std::size_t>(
      std::min(query.bank.num_maskmem, query.bank.max_obj_ptrs_in_encoder) - 1);
  std::vector<std::int64_t> frames;
  const auto walk = [&](std::int64_t t, const FrameOutput& output) {
    if ((first && (t - *first) * sign <= 1) || frames.size() >= most) return false;
    if (is_remembered(output)) frames.push_back(t);
    return true;
  };
  if (query.reverse) {
    for (auto it = outputs.from(query.frame + 1); it != outputs.end(); ++it) {
      if (!walk(it->frame, *it->value.output)) break;
    }
  } else {
    for (auto it = outputs.from(query.frame); it != outputs.begin();) {
      --it;
      if (!walk(it->frame, *it->value.output)) break;
    }
  }
  std::reverse(frames.begin(), frames.end());
  if ((frames.empty() || frames.back() != neighbour) && neighbour >= 0) {
    frames.push_back(neighbour);
  }
  return frames;
}

sam2::MemoryChoice MotionMemory::choose_memory(const Query& query) const {
  const std::vector<std::int64_t> frames = far_frames(query);
  sam2::MemoryChoice choice = upstream_choice(query);
  choice.maps = upstream_choice(query, frames).maps;
  return choice;
}

std::int64_t MotionMemory::choose_mask(Context& ctx, const Masks& masks, RuleState& state) const {
  const auto box_of = [&](std::int64_t number) {
    return box_at_input(ctx, masks.logits[number], masks.side);
  };
  const auto iou_of = [&](std::int64_t number) {
    return masks.iou_predictions[static_cast<std::size_t>(number)];
  };
  state.is_off_path = false;
  if (state.stable_frames < kStableFrames) {
    const std::int64_t best = best_mask(masks.iou_predictions);
    const BoxShape seen = box_shape(box_of(best));
    if (state.stable_frames == 0) {
      state.motion = start_motion(seen);
      state.stable_frames = 1;
      return best;
    }
    state.motion.predict_();
    if (iou_of(best) > kStableIou) {
      state.motion.update_(seen);
      ++state.stable_frames;
    } else {
      state.stable_frames = 0;
    }
    return best;
  }

  state.motion.predict_();
  const BoxShape predicted = state.motion.shape();
  std::int64_t best = 0;
  double best_score = 0.0, best_overlap = 0.0;
  PixelBox best_box;
  for (std::int64_t i = 0; i < masks.logits.shape[0]; ++i) {
    const PixelBox box = box_of(i);
    const double overlap = predicted_iou(predicted, box);
    // The second product is one of float32.
    const float quality = static_cast<float>(1.0 - motion_weight_) * iou_of(i);
    const double score = motion_weight_ * overlap + static_cast<double>(quality);
    if (i > 0 && score <= best_score) continue;
    best = i;
    best_score = score;
    best_overlap = overlap;
    best_box = box;
  }
  state.is_off_path = best_overlap <= 0.0;
  if (iou_of(best) < kStableIou) {
    state.stable_frames = 0;
  } else {
    state.motion.update_(box_shape(best_box));
  }
  return best;
}

// A click begins the motion.
RuleStatePtr MotionMemory::after_prompt(Context& ctx, ConstView mask, std::int64_t side) const {
  RuleState state;
  state.motion = start_motion(box_shape(box_at_input(ctx, mask, side)));
  state.stable_frames = 1;
  return std::make_shared<const RuleState>(std::move(state));
}

}  // namespace sam_rlx
