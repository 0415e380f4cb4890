#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/context.h"
#include "core/image.h"
#include "loading/model.h"
#include "models/sam2/memory_bank.h"
#include "models/sam2/sam2.h"
#include "predictors/video/tracked_object.h"
#include "predictors/video/video_options.h"

namespace sam_rlx {

// Which of several masks an object takes, and which frames it remembers. This one is upstream's:
// sam2/modeling/sam2_base.py, SAM2Base.
class MemoryRule {
 public:
  // Those that VideoOptions name, beside upstream's own.
  static const std::vector<std::string>& names();
  // Raises InvalidArgument for an unknown name, and UnsupportedError where the model's memory is
  // another one. heads: null for a model whose objects have no memory of their own.
  static std::unique_ptr<const MemoryRule> make(const VideoOptions& options, const Model& model,
                                                const sam2::Sam2Heads* heads);
  virtual ~MemoryRule() = default;

  // ---- frames
  // An object on a frame that it is tracked on.
  struct Query {
    const sam2::MemoryBankConfig& bank;
    const TrackedObject& object;
    std::int64_t frame = 0;
    bool reverse = false;
    std::int64_t num_frames = 0;     // of the video; when it is not known, any larger number
    bool all_prompts_point = false;  // see sam2::MemoryQuery

    std::int64_t sign() const { return reverse ? -1 : 1; }
    std::int64_t distance(std::int64_t t) const { return (frame - t) * sign(); }  // > 0: behind
  };
  virtual sam2::MemoryChoice choose_memory(const Query& query) const;
  // Frames that it may choose there or later on, however far away they are.
  virtual std::vector<std::int64_t> far_frames(const Query& query) const;

  // ---- masks
  // The score above which an object is there: else it has no mask, and its pointer says so.
  virtual float min_object_score() const { return 0.0F; }
  // Whether it looks at all of several masks; else nothing below is asked for.
  virtual bool sees_masks() const { return false; }
  // All masks of an object on a frame that it is tracked on.
  struct Masks {
    ConstView logits;  // (M, 4g, 4g), as they are before holes are filled
    std::span<const float> iou_predictions = {};  // (M,)
    std::int64_t side = 0;                        // of the network's input
  };
  // The number of one of them. state: in: after the frame before; out: after this one.
  virtual std::int64_t choose_mask(Context& ctx, const Masks& masks, RuleState& state) const;
  // Whether the frame is one that conditions later ones from here on.
  struct Tracked {
    const Masks& masks;
    std::int64_t chosen = 0;
    std::int64_t frame = 0;
    std::int64_t height = 0, width = 0;  // of the video
    // (H, W) bytes: one of the masks, or with the chosen one's number what the video shows.
    std::function<std::vector<std::uint8_t>(std::int64_t number)> at_video_size;
  };
  virtual bool adds_frame(const Tracked& tracked, RuleState& state) const;
  // After a prompt that gave several masks, of which (4g, 4g) was taken; null: nothing.
  virtual RuleStatePtr after_prompt(Context& ctx, ConstView mask, std::int64_t side) const;

 protected:
  static sam2::MemoryChoice upstream_choice(
      const Query& query, std::optional<std::span<const std::int64_t>> chosen = std::nullopt);
};

// The first in time, or with `reverse` the last, of the frames where an object has prompts.
std::optional<std::int64_t> first_prompted(const TrackedObject& object, bool reverse);
// The mask with the largest predicted IoU; the first of equal ones.
std::int64_t best_mask(std::span<const float> iou_predictions);

}  // namespace sam_rlx
