#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "predictors/image/image_state.h"

namespace sam_rlx {

// An image of SAM (version 1). Upstream: segment_anything/predictor.py, SamPredictor.
class SamImageState final : public ImageState {
 public:
  SamImageState(std::shared_ptr<const Model> model, std::unique_ptr<const ImageFrontEnd> front_end,
                Resize resize)
      : ImageState(std::move(model), std::move(front_end), resize) {}

  void encode(Context& ctx, const ImageView& image) override;
  std::vector<Shape> embedding_shapes() const override;
  std::vector<Tensor> embeddings() const override;
  void adopt(Context& ctx, std::span<const ConstView> embeddings) override;
  void reset() override;

  MaskGeometry mask_geometry(Size orig_hw) const override;
  void decode(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
              const DecodeJob& job) const override;

 private:
  const sam::Sam& sam() const { return model().sam(); }
  sam::Prompt prompt_of(Context& ctx, const PromptBatch& prompts, std::int64_t index, Size orig_hw,
                        Frame frame) const;

  sam2::ImageFeatures features_;  // the embedding alone
  sam::SharedFeatures shared_;
};

}  // namespace sam_rlx
