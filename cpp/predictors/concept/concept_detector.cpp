#include "predictors/concept/concept_detector.h"

#include <numeric>

#include "ops/boxes.h"
#include "ops/elementwise.h"
#include "ops/scores.h"

namespace sam_rlx {

FrameDetections FrameDetector::detect(Context& ctx, const sam3::DetectorFeatures& features,
                                      const sam3::ConceptPrompt& prompt) const {
  const Workspace::Scope scratch(ctx.workspace);
  const sam3::Detections found = heads.detect(ctx, features, prompt);
  const View probs = ctx.workspace.floats(found.logits.shape);
  if (plain_scores) {
    presence_scores(ctx, found.logits, found.presence_logit, probs);
  } else {
    joint_logits(ctx, found.logits, found.presence_logit, probs);
    sigmoid_(ctx, probs);
  }

  std::vector<std::int64_t> queries;
  std::vector<float> scores;
  for (std::int64_t i = 0; i < probs.numel(); ++i) {
    if (!(probs.data[i] > nms.prob)) continue;
    queries.push_back(i);
    scores.push_back(probs.data[i]);
  }
  const View masks = ctx.workspace.floats({static_cast<std::int64_t>(queries.size()), side, side});
  heads.segment(ctx, features, found, {.kept = queries, .masks = masks});

  const View corners = ctx.workspace.floats(found.boxes.shape);
  box_corners(ctx, found.boxes, 1.0F, 1.0F, corners);

  FrameDetections out;
  std::vector<std::int64_t> kept(scores.size());
  std::iota(kept.begin(), kept.end(), std::int64_t{0});
  if (nms.iou > 0.0F) kept = nms_masks(ctx, scores, masks, nms);
  const auto box_of = [&](std::int64_t k) {
    return corners[queries[static_cast<std::size_t>(k)]].data;
  };
  if (inside_only) {
    std::erase_if(kept, [&](std::int64_t k) {
      return is_close_to_boundary(std::span<const float, 4>(box_of(k), 4));
    });
  }
  out.masks = Tensor({static_cast<std::int64_t>(kept.size()), side, side});
  for (const std::int64_t k : kept) {
    copy_(ctx, out.masks.view()[out.count()], masks[k]);
    const float* const box = box_of(k);
    out.boxes.insert(out.boxes.end(), box, box + 4);
    out.scores.push_back(scores[static_cast<std::size_t>(k)]);
  }
  return out;
}

}  // namespace sam_rlx
