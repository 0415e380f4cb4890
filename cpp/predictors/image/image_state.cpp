#include "predictors/image/image_state.h"

#include "ops/elementwise.h"

namespace sam_rlx {

std::unique_ptr<ImageState> ImageState::make(const std::shared_ptr<const Model>& model,
                                             Resize resize) {
  std::unique_ptr<const ImageFrontEnd> front_end = ImageFrontEnd::make(model);
  front_end->check(resize);
  const auto make_state =
      front_end->has_sam2_heads() ? make_heads_image_state : make_sam_image_state;
  return make_state(model, std::move(front_end), resize);
}

void ImageState::reset() {
  features_ = {};
  shared_ = {};
}

Tensor to_channels_first(const KernelTable& kernels, ConstView map) {
  const std::int64_t positions = map.shape[0] * map.shape[1], channels = map.shape[2];
  Tensor out({1, channels, map.shape[0], map.shape[1]});
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  transpose(ctx, map.reshape({positions, channels}), out.view().reshape({channels, positions}));
  return out;
}

void to_channels_last(Context& ctx, ConstView map, View out) {
  const std::int64_t channels = map.shape[1], positions = map.shape[2] * map.shape[3];
  transpose(ctx, map.reshape({channels, positions}), out.reshape({positions, channels}));
}

}  // namespace sam_rlx
