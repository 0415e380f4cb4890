#pragma once

#include <memory>
#include <vector>

#include "predictors/picture.h"

namespace sam_rlx {

// A picture of SAM 2. Upstream: sam2/sam2_image_predictor.py, SAM2ImagePredictor. Masks of one
// prompt set do not depend on the object score. Both original frames mean upstream's float32.
class Sam2Picture final : public Picture {
 public:
  explicit Sam2Picture(std::shared_ptr<const Model> model);

  void encode(Context& ctx, const ImageView& image) override;
  // The image embedding with no_mem_embed, then the two finer maps as the decoder takes them.
  std::vector<Shape> embedding_shapes() const override;
  std::vector<Tensor> embeddings() const override;
  void adopt(Context& ctx, std::span<const ConstView> embeddings) override;
  void reset() override;

  Size input_hw(Size /*orig_hw*/) const override { return {transform_.side, transform_.side}; }
  MaskGeometry mask_geometry(Size orig_hw) const override;
  void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
              const DecodeJob& job) const override;

 private:
  void share(Context& ctx);
  sam::Prompt prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        Frame frame) const;
  void predict_masks(Context& ctx, const sam2::MaskDecoder::Decoded& decoded, std::int64_t index,
                     const DecodeJob& job) const;

  std::shared_ptr<const Model> model_;
  SquareTransform transform_;
  sam2::ImageFeatures features_;  // the embedding holds no_mem_embed
  sam::ImageFeatures shared_;     // the embedding plus no_mask_embed, and its projections
};

}  // namespace sam_rlx
