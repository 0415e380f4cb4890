#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/context.h"
#include "core/image.h"
#include "loading/model.h"
#include "masks/geometry.h"
#include "masks/small_regions.h"
#include "predictors/image/image_front_end.h"

namespace sam_rlx {

// Prompt sets for one image. Any of the three kinds may be absent (null).
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
  kOriginal,         // pixels of the original image; float32 as in SamPredictor.predict
  kOriginalFloat64,  // the same; float64 as in SamAutomaticMaskGenerator
  kModel,            // pixels of the network's input; float32 as in SamPredictor.predict_torch
};

// Which masks of a prompt set are asked for, and where they go.
struct DecodeJob {
  Frame frame = Frame::kOriginal;
  bool multimask_output = true;
  bool hq_token_only = false;               // SAM-HQ and HQ-SAM 2: without SAM's mask
  std::optional<float> iou_threshold = {};  // masks whose IoU is not above it may stay as they are
  View low_res;                             // (B, K, S, S)
  View iou;                                 // (B, K)
};

// What an ImagePredictor keeps of an image and does with it: the part that differs between
// families. It does not check its arguments.
class ImageState {
 public:
  // Raises InvalidArgument when the family has no such resize.
  static std::unique_ptr<ImageState> make(const std::shared_ptr<const Model>& model, Resize resize);
  virtual ~ImageState() = default;

  // Features of an image; they replace those before.
  void encode(Context& ctx, const ImageView& image) {
    front_end_->encode(ctx, image, resize_, outputs());
    prepare(ctx);
  }
  // The same of input (side, side, 3), normalized.
  void encode_input(Context& ctx, ConstView input) {
    front_end_->encode_input(ctx, input, outputs());
    prepare(ctx);
  }
  // What encode leaves, channels first: the image embedding first.
  virtual std::vector<Shape> embedding_shapes() const = 0;
  virtual std::vector<Tensor> embeddings() const = 0;
  virtual void adopt(Context& ctx, std::span<const ConstView> embeddings) = 0;
  void reset();

  // Size of an image inside the network's square input.
  Size input_hw(Size orig_hw) const { return front_end_->input_hw(orig_hw); }
  virtual MaskGeometry mask_geometry(Size orig_hw) const = 0;
  // What changes in low-resolution masks before they are made as large as the image.
  virtual SmallRegions small_regions() const { return {}; }
  // The masks of one prompt set. Several threads may call it at once.
  virtual void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                      const DecodeJob& job) const = 0;

 protected:
  ImageState(std::shared_ptr<const Model> model, std::unique_ptr<const ImageFrontEnd> front_end,
             Resize resize)
      : model_(std::move(model)), front_end_(std::move(front_end)), resize_(resize) {}

  const Model& model() const { return *model_; }
  const ImageFrontEnd& front_end() const { return *front_end_; }

  sam2::ImageFeatures features_;  // of SAM 1 the embedding alone
  sam::SharedFeatures shared_;    // what prompts without a mask share

 private:
  // Where the network's maps of an image go, and what is made of them for prompts.
  virtual ImageFrontEnd::Outputs outputs() = 0;
  virtual void prepare(Context& ctx) = 0;

  std::shared_ptr<const Model> model_;
  std::unique_ptr<const ImageFrontEnd> front_end_;
  Resize resize_;
};

// An image of SAM (version 1). Upstream: segment_anything/predictor.py, SamPredictor.
std::unique_ptr<ImageState> make_sam_image_state(std::shared_ptr<const Model> model,
                                                 std::unique_ptr<const ImageFrontEnd> front_end,
                                                 Resize resize);

// An image before SAM 2's heads, which SAM 3's tracker has too. Upstream:
// sam2/sam2_image_predictor.py, SAM2ImagePredictor; sam3/model/sam1_task_predictor.py,
// SAM3InteractiveImagePredictor, and Sam3Processor.set_image. Masks of one prompt set do not depend
// on the object score. Both original frames mean upstream's float32. Raises UnsupportedError when
// the model has no heads.
std::unique_ptr<ImageState> make_heads_image_state(std::shared_ptr<const Model> model,
                                                   std::unique_ptr<const ImageFrontEnd> front_end,
                                                   Resize resize);
// What its embeddings() gives for features whose embedding holds no_mem_embed.
std::vector<Tensor> embeddings_of(const KernelTable& kernels, const sam2::HeadsConfig& config,
                                  const sam2::ImageFeatures& features);

// Channels-first copies at the border: (1, C, H, W) and (H, W, C).
Tensor to_channels_first(const KernelTable& kernels, ConstView map);
void to_channels_last(Context& ctx, ConstView map, View out);

}  // namespace sam_rlx
