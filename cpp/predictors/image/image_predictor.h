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

// Which prompts are right.
enum class PromptRules {
  kOurs,      // those of prompts.h
  kUpstream,  // all that are finite, with any labels
};

// What becomes of low-resolution masks on their way to the image. Areas as in SmallRegions.
struct UpscaleOptions {
  double max_hole_area = 0.0, max_sprinkle_area = 0.0;
  std::optional<float> mask_threshold = {};  // the model's
};

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
  // What the network takes of an image of this size, instead of the image: (1, 3, side, side),
  // normalized and padded. Values are not checked.
  void set_input(ConstView pixel_values, Size orig_hw);
  // As image_embeddings() gives them.
  void set_image_embeddings(std::span<const ConstView> embeddings, Size orig_hw);
  void reset_image();
  // The image embedding (1, C, g, g), and what else the family keeps of an image.
  std::vector<Tensor> image_embeddings() const;
  // The mean of the image embedding inside a mask (H, W), or of all the image: pooling.h.
  Tensor features(const std::uint8_t* mask) const;
  // Of the current image, or none. Any thread may ask while a call runs.
  std::optional<Size> orig_hw() const { return orig_hw_.get(); }
  std::optional<Size> input_hw() const;

  // Masks of a prompt set: one, or several; SAM-HQ has one, and so has the HQ token alone.
  std::int64_t num_masks(bool multimask_output, bool hq_token_only = false) const {
    return multimask_output && !hq_token_only ? model_->info().num_multimask_outputs : 1;
  }

  // Raises InvalidArgument for hq_token_only of a model without an HQ token.
  void check_hq_token_only(bool hq_token_only) const;
  // Raises InvalidArgument for prompts in pixels of the image that are not right.
  void check_prompts(const PromptBatch& prompts, PromptRules rules) const;

  // -> job.low_res (B, K, S, S) logits, job.iou (B, K).
  void decode(const PromptBatch& prompts, const DecodeJob& job);

  // The way of this image's masks from the decoder to the image. SAM 3's holes are filled.
  MaskGeometry mask_geometry() const;
  // low_res (..., S, S) logits -> out (..., H, W): logits, or bytes that are 1 above the threshold.
  // Small regions of the logits go first, those of the options before those of the family.
  void upscale(ConstView low_res, const UpscaleOptions& options, View out);
  void binarize(ConstView low_res, const UpscaleOptions& options, std::uint8_t* out);
  // Logits as upstream gives them back, after masks were made of them: of SAM 2 and SAM 3 they are
  // clamped.
  void finish_low_res_(View low_res) const;

  // For work beside decoding, by whoever owns the predictor.
  Context context() { return context(0, num_threads()); }

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  Context context(int thread, int num_threads);
  Size current_hw(const char* where) const;  // raises StateError when there is none
  // The masks (K, S, S) as they are made larger: themselves, or a copy in the scope of the caller.
  ConstView without_small_regions(Context& ctx, ConstView low_res,
                                  const UpscaleOptions& options) const;
  float threshold(const UpscaleOptions& options) const {
    return options.mask_threshold.value_or(model_->info().mask_threshold);
  }

  std::shared_ptr<const Model> model_;
  std::unique_ptr<ImageState> state_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one a thread
  PublishedSize orig_hw_;
  void (*poll_interrupt_)() = nullptr;
  Trace* trace_ = nullptr;
  mutable BusyFlag busy_;
};

}  // namespace sam_rlx
