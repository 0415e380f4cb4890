#pragma once

#include <memory>

#include "predictors/heads_picture.h"

namespace sam_rlx {

// Raises UnsupportedError when the checkpoint has no tracker.
const sam2::Sam2Heads& tracker_heads_of(const Model& model);

// A picture of SAM 3 for clicks: the tracker's heads on the second neck. Upstream:
// sam3/model/sam1_task_predictor.py, SAM3InteractiveImagePredictor, and Sam3Processor.set_image.
class Sam3Picture final : public HeadsPicture {
 public:
  // Raises UnsupportedError when the checkpoint has no tracker.
  Sam3Picture(std::shared_ptr<const Model> model, ByteSquareTransform::Resize resize);

  // Holes of at most 256 places are filled before a mask is made as large as the picture.
  SmallRegions small_regions() const override;

 private:
  void preprocess(Context& ctx, const ImageView& image, View input) const override {
    transform_.preprocess(ctx, image, input);
  }
  void forward_image(Context& ctx, ConstView input, sam2::ImageFeatures& out) const override {
    model().sam3().forward_image(ctx, input, {.tracker = &out});
  }

  ByteSquareTransform transform_;
};

}  // namespace sam_rlx
