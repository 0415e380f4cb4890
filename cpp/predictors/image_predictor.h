#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "core/context.h"
#include "ops/mask.h"
#include "predictors/image_transform.h"
#include "predictors/model.h"

namespace sam_rlx {

// Prompt sets for one picture. Any of the three kinds may be absent (null).
struct PromptBatch {
  std::int64_t batch = 0;
  std::int64_t num_points = 0;                 // per set
  const double* point_coords = nullptr;        // (B, N, 2), x and y
  const std::int32_t* point_labels = nullptr;  // (B, N)
  const double* boxes = nullptr;               // (B, 4), xyxy
  ConstView mask_input = {};                   // (B, S, S) logits
};

// The frame that coordinates are in, and the precision that they are shifted in.
enum class Frame {
  kOriginal,         // pixels of the original picture; float32 as in SamPredictor.predict
  kOriginalFloat64,  // the same; float64 as in SamAutomaticMaskGenerator
  kModel,            // pixels of the resized picture; float32 as in SamPredictor.predict_torch
};

// Refuses concurrent use of one object: a second call raises StateError.
class InUse {
 public:
  explicit InUse(std::atomic_flag& flag, const char* where);
  ~InUse() { flag_.clear(std::memory_order_release); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  std::atomic_flag& flag_;
};

// One picture, many prompts. Upstream: segment_anything/predictor.py, SamPredictor. A failed call
// leaves the predictor as it was.
class ImagePredictor {
 public:
  ImagePredictor(std::shared_ptr<const Model> model, int num_threads);

  const Model& model() const { return *model_; }
  int num_threads() const { return static_cast<int>(workspaces_.size()); }

  void set_image(const ImageView& image);
  // (1, C, g, g), as image_embedding() gives it.
  void set_image_embedding(ConstView embedding, Size orig_hw);
  void reset_image();
  bool is_image_set() const { return orig_hw_.has_value(); }
  Tensor image_embedding() const;
  Size orig_hw() const;
  Size input_hw() const;

  // First mask token and number of masks: one for multimask_output, one for a single mask.
  struct MaskRange {
    std::int64_t first, count;
  };
  MaskRange mask_range(bool multimask_output) const;

  // -> low_res (B, K, S, S) logits, iou (B, K).
  void decode(const PromptBatch& prompts, Frame frame, bool multimask_output, View low_res,
              View iou);
  // The same for masks whose predicted IoU is above `iou_threshold` (no threshold: all of them);
  // the low_res of the others is left as it is.
  void decode_above(const PromptBatch& prompts, Frame frame, std::optional<float> iou_threshold,
                    View low_res, View iou);

  // The way of this picture's masks from the decoder to the picture.
  MaskGeometry mask_geometry() const;
  // low_res (K, S, S) logits -> out (K, H, W), logits or bytes that are 1 above the threshold.
  void upscale(ConstView low_res, View out);
  void binarize(ConstView low_res, std::uint8_t* out);

  // For work beside decoding, by whoever owns the predictor.
  Context context() { return context(0, num_threads()); }

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  struct DecodeJob;
  Context context(int thread, int num_threads);
  void adopt_embedding(ConstView embedding, Size orig_hw);
  void run_decode(const PromptBatch& prompts, const DecodeJob& job);
  void decode_one(Context& ctx, const PromptBatch& prompts, std::int64_t index,
                  const DecodeJob& job);

  std::shared_ptr<const Model> model_;
  ImageTransform transform_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one a thread
  Tensor embedding_;                                    // (g, g, C)
  sam::ImageFeatures features_;
  std::optional<Size> orig_hw_;
  void (*poll_interrupt_)() = nullptr;
  Trace* trace_ = nullptr;
  mutable std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace sam_rlx
