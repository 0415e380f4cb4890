#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/context.h"
#include "loading/model.h"
#include "ops/mask.h"
#include "predictors/picture.h"

namespace sam_rlx {

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

// The thread count that a predictor works with: 0 stands for all cores. Raises InvalidArgument.
int checked_num_threads(int num_threads);

// Raises InvalidArgument unless embeddings have these shapes, and their picture has a size.
void check_embeddings(std::span<const ConstView> embeddings, std::span<const Shape> expected,
                      Size orig_hw);

// One picture, many prompts, for every family. Upstream: segment_anything/predictor.py,
// SamPredictor; sam2/sam2_image_predictor.py, SAM2ImagePredictor; sam3/model/sam3_image.py,
// Sam3Image.predict_inst. A failed call leaves the predictor as it was.
class ImagePredictor {
 public:
  using Resize = ByteSquareTransform::Resize;  // SAM 3's: see Picture::make

  ImagePredictor(std::shared_ptr<const Model> model, int num_threads,
                 Resize resize = Resize::kFloat);

  const Model& model() const { return *model_; }
  int num_threads() const { return static_cast<int>(workspaces_.size()); }

  void set_image(const ImageView& image);
  // As image_embeddings() gives them.
  void set_image_embeddings(std::span<const ConstView> embeddings, Size orig_hw);
  void reset_image();
  bool is_image_set() const { return orig_hw_.has_value(); }
  // The image embedding (1, C, g, g), and what else the family keeps of a picture.
  std::vector<Tensor> image_embeddings() const;
  Size orig_hw() const;
  Size input_hw() const { return picture_->input_hw(orig_hw()); }

  // Masks of a prompt set: one, or several.
  std::int64_t num_masks(bool multimask_output) const {
    return multimask_output ? model_->info().num_multimask_outputs : 1;
  }

  // -> job.low_res (B, K, S, S) logits, job.iou (B, K).
  void decode(const PromptBatch& prompts, const DecodeJob& job);

  // The way of this picture's masks from the decoder to the picture. SAM 3's holes are filled.
  MaskGeometry mask_geometry() const { return picture_->mask_geometry(orig_hw()); }
  // low_res (K, S, S) logits -> out (K, H, W), logits or bytes that are 1 above the threshold.
  void upscale(ConstView low_res, View out);
  void binarize(ConstView low_res, std::uint8_t* out);

  // For work beside decoding, by whoever owns the predictor.
  Context context() { return context(0, num_threads()); }

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  Context context(int thread, int num_threads);
  // The masks as they are made larger: themselves, or a copy in the scope of the caller.
  ConstView without_small_regions(Context& ctx, ConstView low_res) const;

  std::shared_ptr<const Model> model_;
  std::unique_ptr<Picture> picture_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one a thread
  std::optional<Size> orig_hw_;
  void (*poll_interrupt_)() = nullptr;
  Trace* trace_ = nullptr;
  mutable std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace sam_rlx
