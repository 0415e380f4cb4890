#pragma once

#include <memory>

#include "predictors/heads_picture.h"

namespace sam_rlx {

// A picture of SAM 2.
class Sam2Picture final : public HeadsPicture {
 public:
  explicit Sam2Picture(std::shared_ptr<const Model> model);

 private:
  void preprocess(Context& ctx, const ImageView& image, View input) const override {
    transform_.preprocess(ctx, image, input);
  }
  void forward_image(Context& ctx, ConstView input, sam2::ImageFeatures& out) const override {
    model().sam2().forward_image(ctx, input, out);
  }

  SquareTransform transform_;
};

}  // namespace sam_rlx
