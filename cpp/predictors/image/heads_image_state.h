#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "predictors/image/image_state.h"

namespace sam_rlx {

// What HeadsImageState::embeddings gives for features whose embedding holds no_mem_embed.
std::vector<Tensor> embeddings_of(const KernelTable& kernels, const sam2::HeadsConfig& config,
                                  const sam2::ImageFeatures& features);

// An image before SAM 2's heads, which SAM 3's tracker has too. Upstream:
// sam2/sam2_image_predictor.py, SAM2ImagePredictor; sam3/model/sam1_task_predictor.py,
// SAM3InteractiveImagePredictor, and Sam3Processor.set_image. Masks of one prompt set do not depend
// on the object score. Both original frames mean upstream's float32.
class HeadsImageState final : public ImageState {
 public:
  // Raises UnsupportedError when the model has no heads.
  HeadsImageState(std::shared_ptr<const Model> model,
                  std::unique_ptr<const ImageFrontEnd> front_end, Resize resize);

  void encode(Context& ctx, const ImageView& image) override;
  // The image embedding with no_mem_embed, then the two finer maps as the decoder takes them.
  std::vector<Shape> embedding_shapes() const override;
  std::vector<Tensor> embeddings() const override;
  void adopt(Context& ctx, std::span<const ConstView> embeddings) override;
  void reset() override;

  MaskGeometry mask_geometry(Size orig_hw) const override;
  // SAM 3: holes of at most 256 positions are filled.
  SmallRegions small_regions() const override;
  void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
              const DecodeJob& job) const override;

 private:
  sam::Prompt prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        Frame frame) const;
  void predict_masks(Context& ctx, const sam2::MaskDecoder::Decoded& decoded, std::int64_t index,
                     const DecodeJob& job) const;

  const sam2::Sam2Heads& heads_;  // of the model
  sam2::ImageFeatures features_;  // the embedding holds no_mem_embed
  sam::SharedFeatures shared_;
};

}  // namespace sam_rlx
