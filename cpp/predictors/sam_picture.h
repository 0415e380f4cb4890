#pragma once

#include <memory>
#include <vector>

#include "predictors/picture.h"

namespace sam_rlx {

// A picture of SAM (version 1). Upstream: segment_anything/predictor.py, SamPredictor.
class SamPicture final : public Picture {
 public:
  explicit SamPicture(std::shared_ptr<const Model> model);

  void encode(Context& ctx, const ImageView& image) override;
  std::vector<Shape> embedding_shapes() const override;
  std::vector<Tensor> embeddings() const override;
  void adopt(Context& ctx, std::span<const ConstView> embeddings) override;
  void reset() override;

  Size input_hw(Size orig_hw) const override { return transform_.resized_hw(orig_hw); }
  MaskGeometry mask_geometry(Size orig_hw) const override;
  void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
              const DecodeJob& job) const override;

 private:
  void keep(Context& ctx, ConstView embedding);
  sam::Prompt prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        Frame frame) const;

  std::shared_ptr<const Model> model_;
  ImageTransform transform_;
  Tensor embedding_;  // (g, g, C)
  sam::ImageFeatures features_;
};

}  // namespace sam_rlx
