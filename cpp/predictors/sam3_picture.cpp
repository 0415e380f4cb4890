#include "predictors/sam3_picture.h"

#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr double kMaxHoleArea = 256.0;

}  // namespace

const sam2::Sam2Heads& tracker_heads_of(const Model& model) {
  if (!model.sam3().tracker) {
    fail<UnsupportedError>("model", "a SAM 3 checkpoint with the tracker, which takes clicks",
                           "one of the detector alone");
  }
  return model.sam3().tracker->heads;
}

Sam3Picture::Sam3Picture(std::shared_ptr<const Model> model, ByteSquareTransform::Resize resize)
    : HeadsPicture(model, tracker_heads_of(*model)) {
  const sam3::Sam3Config& config = model->sam3().config;
  transform_ = {config.vision.trunk.img_size, resize, config.pixel_mean, config.pixel_std};
}

SmallRegions Sam3Picture::small_regions() const {
  return {.max_hole_area = kMaxHoleArea,
          .max_sprinkle_area = 0.0,
          .mask_threshold = model().info().mask_threshold};
}

}  // namespace sam_rlx
