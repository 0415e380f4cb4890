#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/squeeze_excite.h"
#include "models/trunks/config.h"

// Upstream of all: timm/models/repvit.py, as sam2/modeling/backbones/timm.py of EdgeTAM builds it,
// and where a config says `listed`, THU-MIG/RepViT, model/repvit.py, which EfficientSAM3 has. Maps
// are (B, H, W, C).

namespace sam_rlx::trunks {

// Two convolutions of stride 2. Upstream: RepVitStem.
struct RepVitStem {
  bool listed = false;

  Conv2dBN conv1, conv2;
  std::string path;

  RepVitStem() = default;
  explicit RepVitStem(const RepVitConfig& config);
  void visit(ParamVisitor& v);
  void forward(Context& ctx, ConstView image, View out) const;
};

// conv(x) + conv1(x) + x, which is one depthwise convolution. Upstream: RepVggDw.
struct RepVggDw {
  bool fused = false;   // the checkpoint has that one
  bool listed = false;  // conv1 has a bias instead of a norm, and the sum has a norm

  DepthwiseConvBN conv;   // 3x3; once folded the sum
  DepthwiseConvBN conv1;  // 1x1
  BatchNorm bn;           // if it is `listed`
  std::string path;

  RepVggDw() = default;
  RepVggDw(std::int64_t channels, const RepVitConfig& config);
  void visit(ParamVisitor& v);
  void fold();
  void forward(Context& ctx, ConstView x, View out) const;  // out of x's shape, and not x
};

// conv2(gelu(conv1(x))). Upstream: RepVitMlp.
struct RepVitMlp {
  bool listed = false;

  PointwiseConvBN conv1, conv2;
  std::string path;

  RepVitMlp() = default;
  RepVitMlp(std::int64_t channels, const RepVitConfig& config);
  void visit(ParamVisitor& v);
  void forward_add_(Context& ctx, View x) const;  // x + this
};

// Upstream: RepViTBlock.
struct RepVitBlock {
  bool listed = false;

  RepVggDw token_mixer;
  std::optional<SqueezeExcite> se;
  RepVitMlp channel_mixer;
  std::string path;

  RepVitBlock() = default;
  RepVitBlock(std::int64_t channels, const RepVitConfig& config, bool use_se);
  void visit(ParamVisitor& v);
  void forward(Context& ctx, ConstView x, View out) const;  // out of x's shape, and not x
};

// A map of half the sides and of other channels. Upstream: RepVitDownsample. In a list pre_block is
// an entry of its own, before this one.
struct RepVitDownsample {
  bool listed = false;

  RepVitBlock pre_block;
  DepthwiseConvBN spatial_downsample;
  PointwiseConvBN channel_downsample;
  RepVitMlp ffn;
  std::string path;

  RepVitDownsample(std::int64_t channels, std::int64_t out_channels, const RepVitConfig& config);
  void visit(ParamVisitor& v);
  void forward(Context& ctx, ConstView x, View out) const;
};

// Upstream: RepVitStage.
struct RepVitStage {
  std::optional<RepVitDownsample> downsample;
  std::vector<RepVitBlock> blocks;
  std::string path;

  RepVitStage(const RepVitConfig& config, std::int64_t stage);
  void visit(ParamVisitor& v);
};

// Upstream: RepVit with features_only, and TimmBackbone, which calls it `body`; or RepViT without
// its classifier.
struct RepVit {
  RepVitConfig config;

  RepVitStem stem;
  std::vector<RepVitStage> stages;
  std::string path;

  RepVit() = default;
  explicit RepVit(const RepVitConfig& sizes);
  void visit(ParamVisitor& v);

  // Normalized image (1, S, S, 3) -> the map after each stage, finest first, in the scope of the
  // caller.
  std::vector<View> forward(Context& ctx, ConstView image) const;

 private:
  void visit_list(ParamVisitor& v);
};

}  // namespace sam_rlx::trunks
