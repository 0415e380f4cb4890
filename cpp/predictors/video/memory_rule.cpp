#include "predictors/video/memory_rule.h"

#include <algorithm>

#include "core/error.h"
#include "models/sam3/memory_selection.h"
#include "predictors/video/distractor_memory.h"
#include "predictors/video/motion_memory.h"

namespace sam_rlx {
namespace {

// Of tracked frames, those that show the objects well. Upstream: Sam3TrackerBase.frame_filter.
class SelectedMemory : public MemoryRule {
 public:
  sam2::MemoryChoice choose_memory(const Query& query) const override {
    const std::vector<std::int64_t> chosen = far_frames(query);
    return upstream_choice(query, chosen);
  }

  std::vector<std::int64_t> far_frames(const Query& query) const override {
    const FrameOutputs& outputs = query.object.non_cond_frame_outputs;
    const bool reverse = query.reverse;
    auto next = outputs.from(reverse ? query.frame + 1 : query.frame);
    const auto nearest = [&]() -> std::optional<sam3::ScoredFrame> {
      if (next == (reverse ? outputs.end() : outputs.begin())) return std::nullopt;
      const auto& [t, value] = reverse ? *next++ : *--next;
      return sam3::ScoredFrame{t, value.output->eff_iou_score};
    };
    return sam3::frame_filter({.frame_idx = query.frame,
                               .num_frames = query.num_frames,
                               .track_in_reverse = reverse,
                               .max_obj_ptrs_in_encoder = query.bank.max_obj_ptrs_in_encoder},
                              nearest);
  }
};

// The rules that options name. Each needs all of several masks while it tracks, and a memory of
// SAM 2's shape for each object.
struct NamedRule {
  const char* name;
  std::unique_ptr<const MemoryRule> (*make)(const Model& model);
};
constexpr NamedRule kNamedRules[] = {
    {"samurai",
     [](const Model& model) -> std::unique_ptr<const MemoryRule> {
       return std::make_unique<const MotionMemory>(model.info().variant);
     }},
    {"dam4sam",
     [](const Model& /*model*/) -> std::unique_ptr<const MemoryRule> {
       return std::make_unique<const DistractorMemory>();
     }},
};

void check_rule_fits(const std::string& name, const Model& model, const sam2::Sam2Heads* heads) {
  const auto refuse = [&](const std::string& expected) {
    fail<UnsupportedError>("memory_rule", expected, name);
  };
  if (heads == nullptr || model.family().session.objects != SessionRules::Objects::kAlone) {
    refuse("None, since the memory of this model is not SAM 2's");
  }
  if (heads->spatial_perceiver) refuse("None with EdgeTAM, whose memories are shorter");
  if (!heads->use_multimask(false, 0) || heads->config.mask_decoder.num_multimask_outputs < 2) {
    refuse("None with a model that makes a single mask where it tracks");
  }
}

}  // namespace

const std::vector<std::string>& MemoryRule::names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const NamedRule& rule : kNamedRules) names.emplace_back(rule.name);
    return names;
  }();
  return kNames;
}

std::unique_ptr<const MemoryRule> MemoryRule::make(const VideoOptions& options, const Model& model,
                                                   const sam2::Sam2Heads* heads) {
  if (!options.memory_rule.empty()) {
    std::string known = "None";
    for (const NamedRule& rule : kNamedRules) {
      known += std::string(", ") + rule.name;
      if (options.memory_rule != rule.name) continue;
      check_rule_fits(options.memory_rule, model, heads);
      return rule.make(model);
    }
    fail("memory_rule", known, options.memory_rule);
  }
  if (options.use_memory_selection) return std::make_unique<const SelectedMemory>();
  return std::make_unique<const MemoryRule>();
}

sam2::MemoryChoice MemoryRule::upstream_choice(
    const Query& query, std::optional<std::span<const std::int64_t>> chosen) {
  const TrackedObject& object = query.object;
  const std::vector<std::int64_t> cond = object.cond_frame_outputs.frames_by_arrival();
  return sam2::select_memory(
      query.bank,
      {.frame_idx = query.frame,
       .num_frames = query.num_frames,
       .track_in_reverse = query.reverse,
       .cond_frames = cond,
       .is_tracked =
           [&](std::int64_t frame) { return object.non_cond_frame_outputs.find(frame) != nullptr; },
       .chosen_frames = chosen,
       .all_prompts_point = query.all_prompts_point});
}

sam2::MemoryChoice MemoryRule::choose_memory(const Query& query) const {
  return upstream_choice(query);
}

std::vector<std::int64_t> MemoryRule::far_frames(const Query& /*query*/) const { return {}; }

std::int64_t MemoryRule::choose_mask(Context& /*ctx*/, const Masks& masks,
                                     RuleState& /*state*/) const {
  return best_mask(masks.iou_predictions);
}

bool MemoryRule::adds_frame(const Tracked& /*tracked*/, RuleState& /*state*/) const {
  return false;
}

RuleStatePtr MemoryRule::after_prompt(Context& /*ctx*/, ConstView /*mask*/,
                                      std::int64_t /*side*/) const {
  return nullptr;
}

std::optional<std::int64_t> first_prompted(const TrackedObject& object, bool reverse) {
  std::optional<std::int64_t> first;
  for (const auto& [frame, value] : object.cond_frame_outputs) {
    if (value.output->is_added) continue;
    if (!first || reverse) first = frame;
  }
  return first;
}

std::int64_t best_mask(std::span<const float> iou_predictions) {
  return std::max_element(iou_predictions.begin(), iou_predictions.end()) - iou_predictions.begin();
}

}  // namespace sam_rlx
