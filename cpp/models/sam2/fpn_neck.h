#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/conv.h"
#include "models/sam2/config.h"

namespace sam_rlx::sam2 {

// 1x1 convolution of one level. Upstream: FpnNeck.convs.N, a Sequential with one child.
struct LateralConv {
  Conv2d conv;
  std::string path;

  void visit(ParamVisitor& v) { v("conv", conv); }
};

// Upstream: sam2/modeling/backbones/image_encoder.py, FpnNeck. Levels count from the finest, the
// convolutions from the coarsest. The position encoding is the image encoder's.
struct FpnNeck {
  FpnNeckConfig config;

  std::vector<LateralConv> convs;
  std::string path;

  FpnNeck() = default;
  explicit FpnNeck(const FpnNeckConfig& sizes);
  void visit(ParamVisitor& v) { v("convs", convs); }

  std::int64_t num_levels() const { return static_cast<std::int64_t>(convs.size()); }
  std::int64_t out_channels(std::int64_t level) const { return conv_of(level).out_channels; }

  // Maps of the trunk (B, H, W, C), finest first -> one map a level, (B, H, W, out_channels).
  void forward(Context& ctx, std::span<const View> xs, std::span<const View> out) const;

  // In fold(): the lateral convolution of a level that takes no part in the top-down sums absorbs a
  // 1x1 convolution. The mask decoder reads the finer maps through conv_s0 and conv_s1 only.
  void fold_projection(std::int64_t level, Conv2d& projection);

 private:
  std::size_t index_of(std::int64_t level) const {
    return static_cast<std::size_t>(num_levels() - 1 - level);
  }
  const Conv2d& conv_of(std::int64_t level) const { return convs[index_of(level)].conv; }
  // Whether a level's result goes into the next finer one.
  bool passes_down(std::int64_t level) const { return level > 0 && config.top_down(level - 1); }
};

}  // namespace sam_rlx::sam2
