#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "predictors/picture.h"

namespace sam_rlx {

// What HeadsPicture::embeddings gives for features whose embedding holds no_mem_embed.
std::vector<Tensor> embeddings_of(const KernelTable& kernels, const sam2::HeadsConfig& config,
                                  const sam2::ImageFeatures& features);

// A picture before SAM 2's heads, which SAM 3 has too: all but the way from pixels to features.
// Upstream: sam2/sam2_image_predictor.py, SAM2ImagePredictor. Masks of one prompt set do not depend
// on the object score. Both original frames mean upstream's float32.
class HeadsPicture : public Picture {
 public:
  void encode(Context& ctx, const ImageView& image) override;
  // The image embedding with no_mem_embed, then the two finer maps as the decoder takes them.
  std::vector<Shape> embedding_shapes() const override;
  std::vector<Tensor> embeddings() const override;
  void adopt(Context& ctx, std::span<const ConstView> embeddings) override;
  void reset() override;

  Size input_hw(Size /*orig_hw*/) const override { return {side(), side()}; }
  MaskGeometry mask_geometry(Size orig_hw) const override;
  void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
              const DecodeJob& job) const override;

 protected:
  // `heads` belong to the model.
  HeadsPicture(std::shared_ptr<const Model> model, const sam2::Sam2Heads& heads)
      : model_(std::move(model)), heads_(heads) {}

  // The family's part of encode: pixels -> input (side, side, 3) -> features.
  virtual void preprocess(Context& ctx, const ImageView& image, View input) const = 0;
  virtual void forward_image(Context& ctx, ConstView input, sam2::ImageFeatures& out) const = 0;

  const Model& model() const { return *model_; }

 private:
  std::int64_t side() const { return heads_.config.base.image_size; }
  void share(Context& ctx);
  sam::Prompt prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        Frame frame) const;
  void predict_masks(Context& ctx, const sam2::MaskDecoder::Decoded& decoded, std::int64_t index,
                     const DecodeJob& job) const;

  std::shared_ptr<const Model> model_;
  const sam2::Sam2Heads& heads_;
  sam2::ImageFeatures features_;  // the embedding holds no_mem_embed
  sam::ImageFeatures shared_;     // the embedding plus no_mask_embed, and its projections
};

}  // namespace sam_rlx
