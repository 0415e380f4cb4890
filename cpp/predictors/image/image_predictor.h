#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/in_use.h"
#include "loading/model.h"
#include "masks/geometry.h"
#include "predictors/image/image_state.h"
#include "predictors/image/published_size.h"

namespace sam_rlx {

// The thread count that a predictor works with: 0 stands for all cores. Raises InvalidArgument.
int checked_num_threads(int num_threads);

// Raises InvalidArgument unless embeddings have these shapes, and their image has a size.
void check_embeddings(std::span<const ConstView> embeddings, std::span<const Shape> expected,
                      Size orig_hw);

// One image, many prompts, for every family. Upstream: segment_anything/predictor.py,
// SamPredictor; sam2/sam2_image_predictor.py, SAM2ImagePredictor; sam3/model/sam3_image.py,
// Sam3Image.predict_inst. A failed call leaves the predictor as it was.
class ImagePredictor {
 public:
  ImagePredictor(std::shared_ptr<const Model> model, int num_threads,
                 Resize resize = Resize::kFloat);

  const Model& model() const { return *model_; }
  int num_threads() const { return static_cast<int>(workspaces_.size()); }

  void set_image(const ImageView& image);
  // As image_embeddings() gives them.
  void set_image_embeddings(std::span<const ConstView> embeddings, Size orig_hw);
  void reset_image();
  // The image embedding (1, C, g, g), and what else the family keeps of an image.
  std::vector<Tensor> image_embeddings() const;
  // Of the current image, or none. Any thread may ask while a call runs.
  std::optional<Size> orig_hw() const { return orig_hw_.get(); }
  std::optional<Size> input_hw() const;

  // Masks of a prompt set: one, or several.
  std::int64_t num_masks(bool multimask_output) const {
    return multimask_output ? model_->info().num_multimask_outputs : 1;
  }

  // -> job.low_res (B, K, S, S) logits, job.iou (B, K).
  void decode(const PromptBatch& prompts, const DecodeJob& job);

  // The way of this image's masks from the decoder to the image. SAM 3's holes are filled.
  MaskGeometry mask_geometry() const;
  // low_res (K, S, S) logits -> out (K, H, W) of that geometry, logits or bytes that are 1 above
  // the threshold.
  void upscale(const MaskGeometry& geometry, ConstView low_res, View out);
  struct Bits {
    float threshold;
    std::uint8_t* out;
  };
  void binarize(const MaskGeometry& geometry, ConstView low_res, const Bits& bits);

  // For work beside decoding, by whoever owns the predictor.
  Context context() { return context(0, num_threads()); }

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  Context context(int thread, int num_threads);
  Size current_hw(const char* where) const;  // raises StateError when there is none
  // The masks as they are made larger: themselves, or a copy in the scope of the caller.
  ConstView without_small_regions(Context& ctx, ConstView low_res) const;

  std::shared_ptr<const Model> model_;
  std::unique_ptr<ImageState> state_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one a thread
  PublishedSize orig_hw_;
  void (*poll_interrupt_)() = nullptr;
  Trace* trace_ = nullptr;
  mutable BusyFlag busy_;
};

}  // namespace sam_rlx
