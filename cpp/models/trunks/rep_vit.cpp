#include "models/trunks/rep_vit.h"

#include <utility>

#include "layers/mlp.h"

namespace sam_rlx::trunks {
namespace {

constexpr ConvWindow kStemConv{.kernel = 3, .stride = 2, .padding = 1};
constexpr std::int64_t kMixerKernel = 3;  // of the depthwise convolutions

}  // namespace

// ---------------------------------------------------------------- RepVitStem

RepVitStem::RepVitStem(const RepVitConfig& config)
    : listed(config.listed),
      conv1(config.in_chans, config.embed_dim[0] / 2, kStemConv, config.fused),
      conv2(config.embed_dim[0] / 2, config.embed_dim[0], kStemConv, config.fused) {}

void RepVitStem::visit(ParamVisitor& v) {
  v(listed ? "0" : "conv1", conv1);
  v(listed ? "2" : "conv2", conv2);
}

void RepVitStem::forward(Context& ctx, ConstView image, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  conv2.forward(ctx, conv1.forward(ctx, image, Activation::kGelu), Activation::kNone, out);
  ctx.record(path, out);
}

// ---------------------------------------------------------------- RepVggDw

RepVggDw::RepVggDw(std::int64_t channels, const RepVitConfig& config)
    : fused(config.fused),
      listed(config.listed),
      conv(channels, kMixerKernel, 1, fused),
      conv1(channels, 1, 1, listed),
      bn(channels) {}

void RepVggDw::visit(ParamVisitor& v) {
  v(fused ? "" : "conv", conv);
  if (fused) return;
  v("conv1", conv1);
  if (listed) v("bn", bn);
}

// Both are folded, channels last: the 1x1 one and x itself join the middle of the kernel.
void RepVggDw::fold() {
  if (fused) return;
  const std::int64_t channels = conv.c.channels;
  float* const middle = conv.c.weight.data() + kMixerKernel * kMixerKernel / 2 * channels;
  for (std::int64_t i = 0; i < channels; ++i) {
    middle[i] = static_cast<float>(double{middle[i]} + double{conv1.c.weight.data()[i]} + 1.0);
    conv.c.bias.data()[i] += conv1.c.bias.data()[i];
  }
  conv1.c.weight = Tensor();
  conv1.c.bias = Tensor();
  if (listed) bn.fold_into({conv.c.weight, conv.c.bias}, 1);
}

void RepVggDw::forward(Context& ctx, ConstView x, View out) const {
  conv.c.forward(ctx, x, Activation::kNone, out);
}

// ---------------------------------------------------------------- RepVitMlp

RepVitMlp::RepVitMlp(std::int64_t channels, const RepVitConfig& config)
    : listed(config.listed),
      conv1(channels, config.mlp_ratio * channels, config.fused),
      conv2(config.mlp_ratio * channels, channels, config.fused) {}

void RepVitMlp::visit(ParamVisitor& v) {
  v(listed ? "m.0" : "conv1", conv1);
  v(listed ? "m.2" : "conv2", conv2);
}

void RepVitMlp::forward_add_(Context& ctx, View x) const {
  mlp_add_(ctx, conv1.affine(), Activation::kGelu, conv2.affine(), x, x);
}

// ---------------------------------------------------------------- RepVitBlock

RepVitBlock::RepVitBlock(std::int64_t channels, const RepVitConfig& config, bool use_se)
    : listed(config.listed), token_mixer(channels, config), channel_mixer(channels, config) {
  if (use_se) se = SqueezeExcite(channels, RepVitConfig::squeezed(channels));
}

void RepVitBlock::visit(ParamVisitor& v) {
  v(listed ? "token_mixer.0" : "token_mixer", token_mixer);
  if (se) v(listed ? "token_mixer.1" : "se", *se);
  v("channel_mixer", channel_mixer);
}

void RepVitBlock::forward(Context& ctx, ConstView x, View out) const {
  token_mixer.forward(ctx, x, out);
  if (se) se->forward_(ctx, out);
  channel_mixer.forward_add_(ctx, out);
  ctx.record(path, out);
}

// ---------------------------------------------------------------- RepVitDownsample

RepVitDownsample::RepVitDownsample(std::int64_t channels, std::int64_t out_channels,
                                   const RepVitConfig& config)
    : listed(config.listed),
      pre_block(channels, config, false),
      spatial_downsample(channels, kMixerKernel, 2, config.fused),
      channel_downsample(channels, out_channels, config.fused),
      ffn(out_channels, config) {}

void RepVitDownsample::visit(ParamVisitor& v) {
  if (!listed) v("pre_block", pre_block);
  v(listed ? "token_mixer.0" : "spatial_downsample", spatial_downsample);
  v(listed ? "token_mixer.2" : "channel_downsample", channel_downsample);
  v(listed ? "channel_mixer" : "ffn", ffn);
}

void RepVitDownsample::forward(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View y = ctx.workspace.floats(x.shape);
  pre_block.forward(ctx, x, y);
  channel_downsample.forward(ctx, spatial_downsample.c.forward(ctx, y), Activation::kNone, out);
  ffn.forward_add_(ctx, out);
  ctx.record(path, out);
}

// ---------------------------------------------------------------- RepVitStage

RepVitStage::RepVitStage(const RepVitConfig& config, std::int64_t stage) {
  const auto s = static_cast<std::size_t>(stage);
  const std::int64_t width = config.embed_dim[s];
  if (stage > 0) downsample.emplace(config.embed_dim[s - 1], width, config);
  for (std::int64_t i = 0; i < config.depth[s]; ++i) blocks.emplace_back(width, config, i % 2 == 0);
}

void RepVitStage::visit(ParamVisitor& v) {
  if (downsample) v("downsample", *downsample);
  v("blocks", blocks);
}

// ---------------------------------------------------------------- RepVit

RepVit::RepVit(const RepVitConfig& sizes) : config(sizes), stem(sizes) {
  for (std::int64_t i = 0; i < config.num_stages(); ++i) stages.emplace_back(config, i);
}

void RepVit::visit(ParamVisitor& v) {
  if (config.listed) return visit_list(v);
  v("body.stem", stem);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    v(("body.stages_" + std::to_string(i)).c_str(), stages[i]);
  }
}

void RepVit::visit_list(ParamVisitor& v) {
  std::int64_t next = 0;
  const auto name = [&] { return "features." + std::to_string(next++); };
  v(name().c_str(), stem);
  for (RepVitStage& stage : stages) {
    if (stage.downsample) {
      v(name().c_str(), stage.downsample->pre_block);
      v(name().c_str(), *stage.downsample);
    }
    for (RepVitBlock& block : stage.blocks) v(name().c_str(), block);
  }
}

std::vector<View> RepVit::forward(Context& ctx, ConstView image) const {
  std::vector<View> maps;
  for (std::int64_t i = 0; i < config.num_stages(); ++i) {
    const std::int64_t side = config.stage_grid(i);
    maps.push_back(ctx.workspace.floats({image.shape[0], side, side, config.stage_width(i)}));
  }
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Workspace::Scope scratch(ctx.workspace);
    const RepVitStage& stage = stages[i];
    // Blocks write from one map to the other: the last one to the result.
    View x = maps[i], other = ctx.workspace.floats(maps[i].shape);
    if (stage.blocks.size() % 2 == 1) std::swap(x, other);
    if (stage.downsample) {
      stage.downsample->forward(ctx, maps[i - 1], x);
    } else {
      stem.forward(ctx, image, x);
    }
    for (const RepVitBlock& block : stage.blocks) {
      ctx.check_interrupt();
      block.forward(ctx, x, other);
      std::swap(x, other);
    }
  }
  return maps;
}

}  // namespace sam_rlx::trunks
