#include "predictors/picture.h"

#include "core/error.h"
#include "ops/elementwise.h"
#include "predictors/sam2_picture.h"
#include "predictors/sam3_picture.h"
#include "predictors/sam_picture.h"

namespace sam_rlx {

std::unique_ptr<Picture> Picture::make(std::shared_ptr<const Model> model,
                                       ByteSquareTransform::Resize resize) {
  if (model->is_sam3()) return std::make_unique<Sam3Picture>(std::move(model), resize);
  if (resize != ByteSquareTransform::Resize::kFloat) {
    fail("resize", "\"float\" for family " + model->info().family, "\"integer\"");
  }
  if (model->is_sam2()) return std::make_unique<Sam2Picture>(std::move(model));
  return std::make_unique<SamPicture>(std::move(model));
}

Tensor to_channels_first(const KernelTable& kernels, ConstView map) {
  const std::int64_t places = map.shape[0] * map.shape[1], channels = map.shape[2];
  Tensor out({1, channels, map.shape[0], map.shape[1]});
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  transpose(ctx, map.reshape({places, channels}), out.view().reshape({channels, places}));
  return out;
}

void to_channels_last(Context& ctx, ConstView map, View out) {
  const std::int64_t channels = map.shape[1], places = map.shape[2] * map.shape[3];
  transpose(ctx, map.reshape({channels, places}), out.reshape({places, channels}));
}

}  // namespace sam_rlx
