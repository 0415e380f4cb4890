#include "models/sam2/fpn_neck.h"

#include "core/error.h"
#include "ops/resize.h"

namespace sam_rlx::sam2 {

FpnNeck::FpnNeck(const FpnNeckConfig& sizes) : config(sizes) {
  for (const std::int64_t dim : config.backbone_channel_list) {
    convs.push_back({.conv = Conv2d(dim, config.d_model, kConv1x1), .path = {}});
  }
}

void FpnNeck::forward(Context& ctx, std::span<const View> xs, std::span<const View> out) const {
  for (std::int64_t level = num_levels() - 1; level >= 0; --level) {
    const auto i = static_cast<std::size_t>(level);
    ConstView top_down;
    if (config.top_down(level) && level + 1 < num_levels()) {
      // In the memory of the result: the convolution adds itself to it.
      for (std::int64_t b = 0; b < out[i].shape[0]; ++b) {
        upsample_nearest2x_hwc(ctx, out[i + 1][b], out[i][b]);
      }
      top_down = out[i];
    }
    conv_of(level).forward(ctx, xs[i], top_down, out[i]);
  }
  for (std::size_t i = 0; i < out.size(); ++i) ctx.record(path + "." + std::to_string(i), out[i]);
}

void FpnNeck::fold_projection(std::int64_t level, Conv2d& projection) {
  Conv2d& conv = convs[index_of(level)].conv;
  if (config.top_down(level) || passes_down(level) || projection.window != kConv1x1) {
    fail_internal(conv.path + ": a projection that cannot be folded");
  }
  conv.absorb(projection);
}

}  // namespace sam_rlx::sam2
