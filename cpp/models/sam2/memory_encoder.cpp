#include "models/sam2/memory_encoder.h"

#include "layers/mlp.h"
#include "ops/resize_antialias.h"

namespace sam_rlx::sam2 {
namespace {

ConstView batched(ConstView map) {
  return map.reshape({1, map.shape[0], map.shape[1], map.shape[2]});
}

}  // namespace

// ---------------------------------------------------------------- MaskDownSampler

MaskDownSampler::MaskDownSampler(std::int64_t embed_dim, std::int64_t total_stride,
                                 std::int64_t in_channels, std::int64_t starting_out_chan) {
  std::int64_t channels = in_channels, next = starting_out_chan;
  for (std::int64_t stride = total_stride; stride > 1; stride /= 2) {
    next *= 4;
    convs.emplace_back(channels, next, ConvWindow{.kernel = 3, .stride = 2, .padding = 1});
    norms.emplace_back(next, 1e-6F);
    channels = next;
  }
  proj = Conv2d(channels, embed_dim, kConv1x1);
}

void MaskDownSampler::visit(ParamVisitor& v) {
  const auto name = [](std::size_t index) { return "encoder." + std::to_string(index); };
  for (std::size_t i = 0; i < convs.size(); ++i) {
    v(name(3 * i).c_str(), convs[i]);
    v(name(3 * i + 1).c_str(), norms[i]);
  }
  v(name(3 * convs.size()).c_str(), proj);
}

View MaskDownSampler::forward(Context& ctx, ConstView masks) const {
  std::int64_t height = masks.shape[1], width = masks.shape[2];
  for (std::size_t i = 0; i < convs.size(); ++i) {
    height = (height + 1) / 2;
    width = (width + 1) / 2;
  }
  const View out = ctx.workspace.floats({masks.shape[0], height, width, proj.out_channels});
  const Workspace::Scope scratch(ctx.workspace);
  ConstView x = masks;
  for (std::size_t i = 0; i < convs.size(); ++i) {
    const View y = convs[i].forward(ctx, x);
    norms[i].forward_(ctx, y);
    activation_(ctx, Activation::kGelu, y);
    x = y;
  }
  proj.forward(ctx, x, {}, out);
  ctx.record(path, out);
  return out;
}

// ---------------------------------------------------------------- CXBlock

CXBlock::CXBlock(std::int64_t channels)
    : dim(channels),
      dwconv(channels, 7),
      norm(channels, 1e-6F),
      pwconv1(channels, 4 * channels),
      pwconv2(4 * channels, channels) {}

void CXBlock::visit(ParamVisitor& v) {
  v("gamma", gamma, {dim});
  v("dwconv", dwconv);
  v("norm", norm);
  v("pwconv1", pwconv1);
  v("pwconv2", pwconv2);
}

// gamma * (W x + b) = (gamma W) x + gamma b, row by row.
void CXBlock::fold() {
  for (std::int64_t c = 0; c < dim; ++c) {
    const float factor = gamma.data()[c];
    float* const row = pwconv2.weight.data() + c * pwconv2.in_features;
    for (std::int64_t i = 0; i < pwconv2.in_features; ++i) row[i] *= factor;
    pwconv2.bias.data()[c] *= factor;
  }
}

void CXBlock::forward_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View y = dwconv.forward(ctx, x);
  norm.forward_(ctx, y);
  mlp_add_(ctx, pwconv1, Activation::kGelu, pwconv2, y, x);
  ctx.record(path, x);
}

void Fuser::forward_(Context& ctx, View x) const {
  for (const CXBlock& layer : layers) layer.forward_(ctx, x);
}

// ---------------------------------------------------------------- MemoryEncoder

MemoryEncoder::MemoryEncoder(const MemoryEncoderConfig& sizes)
    : config(sizes),
      mask_downsampler(sizes.in_dim, sizes.total_stride),
      pix_feat_proj(sizes.in_dim, sizes.in_dim, kConv1x1),
      out_proj(sizes.in_dim, sizes.out_dim, kConv1x1) {
  for (std::int64_t i = 0; i < config.fuser_layers; ++i) fuser.layers.emplace_back(config.in_dim);
}

void MemoryEncoder::visit(ParamVisitor& v) {
  v("mask_downsampler", mask_downsampler);
  v("pix_feat_proj", pix_feat_proj);
  v("fuser", fuser);
  v("out_proj", out_proj);
}

ConstView MemoryEncoder::fitting_mask(Context& ctx, ConstView pix_feat, ConstView mask) const {
  const std::int64_t side = config.total_stride * pix_feat.shape[0];
  if (mask.shape == Shape{side, side}) return mask;
  const View out = ctx.workspace.floats({1, side, side});
  resize_bilinear_antialias(ctx, mask.reshape({1, mask.shape[0], mask.shape[1]}), out);
  return out[0];
}

View MemoryEncoder::forward(Context& ctx, ConstView pix_feat, ConstView mask) const {
  const View out = ctx.workspace.floats(pix_feat.shape.with_last(config.out_dim));
  const Workspace::Scope scratch(ctx.workspace);
  mask = fitting_mask(ctx, pix_feat, mask);
  const View masks =
      mask_downsampler.forward(ctx, mask.reshape({1, mask.shape[0], mask.shape[1], 1}));
  const View x = pix_feat_proj.forward(ctx, batched(pix_feat), masks);
  fuser.forward_(ctx, x);
  out_proj.forward(ctx, x, {}, out.reshape({1, out.shape[0], out.shape[1], out.shape[2]}));
  ctx.record(path, out);
  return out;
}

}  // namespace sam_rlx::sam2
