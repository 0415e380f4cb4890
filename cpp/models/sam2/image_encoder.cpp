#include "models/sam2/image_encoder.h"

#include "layers/position_encoding.h"
#include "ops/elementwise.h"

namespace sam_rlx::sam2 {
namespace {

Trunk trunk_of(const ImageEncoderConfig& sizes) {
  if (sizes.rep_vit) return trunks::RepVit(*sizes.rep_vit);
  return Hiera(sizes.trunk);
}

}  // namespace

ImageEncoder::ImageEncoder(const ImageEncoderConfig& sizes)
    : config(sizes), trunk(trunk_of(sizes)), neck(sizes.neck) {}

void ImageEncoder::visit(ParamVisitor& v) {
  std::visit([&](auto& network) { v("trunk", network); }, trunk);
  v("neck", neck);
}

void ImageEncoder::fold() {
  const PositionEmbeddingSine encoding{.num_pos_feats = config.neck.d_model};
  vision_pos_enc = encoding.dense(grid(), grid());
}

std::vector<View> ImageEncoder::forward(Context& ctx, ConstView image, View last_stage) const {
  const auto map_of = [&](std::int64_t level) {
    const std::int64_t side = config.stage_grid(level);
    return ctx.workspace.floats({1, side, side, neck.out_channels(level)});
  };
  std::vector<View> features;
  for (std::int64_t i = 0; i < config.num_levels(); ++i) features.push_back(map_of(i));

  const Workspace::Scope scratch(ctx.workspace);
  // The levels that are left out reach the others through the top-down sums.
  std::vector<View> maps = features;
  for (std::int64_t i = config.num_levels(); i < neck.num_levels(); ++i) {
    maps.push_back(map_of(i));
  }
  const std::vector<View> stages =
      std::visit([&](const auto& network) { return network.forward(ctx, image); }, trunk);
  if (last_stage.data != nullptr) copy_(ctx, last_stage, stages.back());
  neck.forward(ctx, stages, maps);
  return features;
}

}  // namespace sam_rlx::sam2
