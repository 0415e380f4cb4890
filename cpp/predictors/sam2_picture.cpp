#include "predictors/sam2_picture.h"

namespace sam_rlx {

Sam2Picture::Sam2Picture(std::shared_ptr<const Model> model)
    : HeadsPicture(model, model->sam2().heads) {
  const sam2::Sam2Config& config = model->sam2().config;
  transform_ = {config.heads.base.image_size, config.pixel_mean, config.pixel_std};
}

}  // namespace sam_rlx
