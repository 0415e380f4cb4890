#include "models/sam3/segmentation_head.h"

#include <utility>

#include "layers/fold.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/norm.h"

namespace sam_rlx::sam3 {
namespace {

constexpr std::int64_t kGroups = 8;
constexpr std::size_t kLevels = 2;  // finer than the one that the prompt is mixed into

void resize(Tensor& tensor, const Shape& shape) {
  if (tensor.shape() != shape) tensor = Tensor(shape);
}

}  // namespace

// ---------------------------------------------------------------- PixelDecoder

void PixelConv::visit(ParamVisitor& v) {
  v("weight", weight, {channels, channels, 3, 3});
  v("bias", bias, {channels});
}

void PixelConv::pack(const KernelTable& kernels) {
  level = pack_conv(kernels, weight, weight_format);
  coarser = pack_upsampled_conv(kernels, weight, weight_format);
  weight = Tensor();
}

PixelDecoder::PixelDecoder(const DetectorConfig& config) {
  for (std::int64_t i = 0; i < config.upsampling_stages; ++i) {
    conv_layers.emplace_back().channels = config.d_model;
    norms.emplace_back(kGroups, config.d_model);
  }
}

void PixelDecoder::visit(ParamVisitor& v) {
  v("conv_layers", conv_layers);
  v("norms", norms);
}

void PixelDecoder::fold() {
  conv_layers.resize(kLevels);
  norms.resize(kLevels);
}

void PixelDecoder::begin(Context& ctx, ConstView level0, ConstView level1, PixelLevels& out) const {
  const auto convolve = [&](std::size_t stage, ConstView level, Tensor& target) {
    const PixelConv& conv = conv_layers[stage];
    resize(target, {4, level.shape[0] / 2, level.shape[1] / 2, conv.channels});
    conv3x3_to_quarters(ctx, level, conv.level, conv.bias.data(), target);
  };
  convolve(0, level1, out.level1);
  convolve(1, level0, out.level0);
}

PixelDecoder::Pixels PixelDecoder::finish(Context& ctx, ConstView x,
                                          const PixelLevels& levels) const {
  const std::int64_t channels = conv_layers[0].channels;
  Pixels out{ctx.workspace.floats(levels.level0.shape()), ctx.workspace.floats({channels}),
             ctx.workspace.floats({channels})};
  const Workspace::Scope scratch(ctx.workspace);
  const View middle = ctx.workspace.floats(levels.level1.shape());
  conv3x3_upsampled(ctx, x, conv_layers[0].coarser, levels.level1, middle);
  norms[0].affine(ctx, middle, out.scale, out.shift);
  relu_affine_(ctx, middle, out.scale, out.shift);

  conv3x3_upsampled(ctx, middle, conv_layers[1].coarser, levels.level0, out.map);
  norms[1].affine(ctx, out.map, out.scale, out.shift);
  return out;
}

// ---------------------------------------------------------------- UniversalSegmentationHead

UniversalSegmentationHead::UniversalSegmentationHead(const DetectorConfig& config)
    : pixel_decoder(config),
      mask_predictor{.mask_embed = {config.d_model, config.d_model, config.d_model, 3}},
      cross_attend_prompt(config.d_model, config.num_heads),
      cross_attn_norm(config.d_model, 1e-5F),
      semantic_seg_head(config.d_model, 1, kConv1x1),
      instance_seg_head(config.d_model, config.d_model, kConv1x1) {}

void UniversalSegmentationHead::visit(ParamVisitor& v) {
  v("pixel_decoder", pixel_decoder);
  v("mask_predictor", mask_predictor);
  v("cross_attend_prompt", cross_attend_prompt);
  v("cross_attn_norm", cross_attn_norm);
  v("semantic_seg_head", semantic_seg_head);
  v("instance_seg_head", instance_seg_head);
}

// With v = A h + a the vector of a query, and W p + w the channels of a position:
//   v . (W p + w) = (W^T A h + W^T a) . p + (w^T A h + w . a).
// mask_embed's last layer becomes the first term, mask_offset is the second.
void UniversalSegmentationHead::fold() {
  Linear& last = mask_predictor.mask_embed.layers.back();
  const std::int64_t channels = last.out_features;
  const ConstView row = instance_seg_head.bias.view().reshape({1, channels});  // w^T
  mask_offset = Linear(channels, 1);
  mask_offset.weight = folded_weight(row, last.weight);
  mask_offset.bias = folded_bias(row, {}, last.bias);
  Linear columns(channels, channels);
  columns.weight = transposed(instance_seg_head.weight);  // W^T
  last.absorb(columns);
  instance_seg_head.weight = Tensor();
  semantic_vector = std::move(semantic_seg_head.weight);
}

PixelDecoder::Pixels UniversalSegmentationHead::embed_pixels(Context& ctx,
                                                             ConstView encoder_hidden_states,
                                                             ConstView prompt,
                                                             const PixelLevels& levels) const {
  const Shape& map = encoder_hidden_states.shape;
  // Stays below the result: two results need a scope for the scratch of the first.
  const View x = ctx.workspace.floats({map[0] * map[1], map[2]});
  {
    const Workspace::Scope scratch(ctx.workspace);
    copy_(ctx, x, encoder_hidden_states);
    const View query = cross_attn_norm.forward(ctx, x);
    cross_attend_prompt.attend_to_tokens_add_(ctx, query, prompt, x);
  }
  ctx.record(path + ".cross_attend_prompt", x);
  return pixel_decoder.finish(ctx, x.reshape(map), levels);
}

void UniversalSegmentationHead::predict_masks(Context& ctx, const PixelDecoder::Pixels& pixels,
                                              ConstView queries, View masks) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::vector<Linear>& layers = mask_predictor.mask_embed.layers;
  ConstView hidden = queries;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    hidden = layers[i].forward(ctx, hidden, Activation::kRelu);
  }
  const View vectors = layers.back().forward(ctx, hidden);
  const View offsets = mask_offset.forward(ctx, hidden);
  map_products(ctx, {pixels.map, pixels.scale, pixels.shift, vectors, offsets}, masks);
  ctx.record(path + ".masks", masks);
}

void UniversalSegmentationHead::predict_semantic(Context& ctx, const PixelDecoder::Pixels& pixels,
                                                 View semantic) const {
  const ConstView vector = semantic_vector.view().reshape({1, semantic_seg_head.in_channels});
  map_products(ctx, {pixels.map, pixels.scale, pixels.shift, vector, semantic_seg_head.bias},
               semantic);
  ctx.record(path + ".semantic_seg", semantic);
}

}  // namespace sam_rlx::sam3
