#include "models/trunks/tiny_vit.h"

#include <cmath>

#include "core/error.h"
#include "core/index.h"
#include "layers/mlp.h"
#include "ops/attention.h"
#include "ops/bottleneck.h"
#include "ops/elementwise.h"
#include "ops/window_groups.h"

namespace sam_rlx::trunks {
namespace {

ConvWindow patch_window(std::int64_t kernel) {
  return {.kernel = kernel, .stride = kernel == 3 ? 2 : 1, .padding = kernel / 2};
}

std::optional<PatchMerging> merging(const TinyViTConfig& config, std::int64_t layer) {
  if (layer + 1 == config.num_layers()) return std::nullopt;
  return PatchMerging(config.embed_dims[at(layer)], config.embed_dims[at(layer + 1)],
                      config.merge_stride(layer));
}

// gelu(conv2(gelu(conv1(x)))), and conv3 behind it.
template <class Layer>
BottleneckArgs convolutions(const Layer& layer) {
  return {.expand = layer.conv1.packed,
          .project = layer.conv3.packed,
          .expand_bias = layer.conv1.bias.data(),
          .project_bias = layer.conv3.bias.data(),
          .depthwise = {layer.conv2.c.weight, layer.conv2.c.bias, layer.conv2.c.stride,
                        Activation::kGelu},
          .activation = Activation::kGelu};
}

}  // namespace

// ---------------------------------------------------------------- PatchEmbed

TinyViTPatchEmbed::TinyViTPatchEmbed(std::int64_t in_chans, const TinyViTConfig& config)
    : conv1(in_chans, config.embed_dims[0] / 2, patch_window(config.patch_kernel)),
      conv2(config.embed_dims[0] / 2, config.embed_dims[0], patch_window(config.patch_kernel)) {}

void TinyViTPatchEmbed::visit(ParamVisitor& v) {
  v("seq.0", conv1);
  v("seq.2", conv2);
}

View TinyViTPatchEmbed::forward(Context& ctx, ConstView image) const {
  const View out = ctx.workspace.floats(conv2.c.out_shape(conv1.c.out_shape(image.shape)));
  const Workspace::Scope scratch(ctx.workspace);
  conv2.forward(ctx, conv1.forward(ctx, image, Activation::kGelu), Activation::kNone, out);
  ctx.record(path, out);
  return out;
}

// ---------------------------------------------------------------- MBConv

MBConv::MBConv(std::int64_t channels, std::int64_t hidden)
    : conv1(channels, hidden), conv2(hidden, 3), conv3(hidden, channels) {}

void MBConv::visit(ParamVisitor& v) {
  v("conv1", conv1);
  v("conv2", conv2);
  v("conv3", conv3);
}

void MBConv::forward(Context& ctx, ConstView x, View out) const {
  BottleneckArgs args = convolutions(*this);
  args.residual = x;
  args.last = Activation::kGelu;
  bottleneck(ctx, x, args, out);
  ctx.record(path, out);
}

// ---------------------------------------------------------------- PatchMerging

PatchMerging::PatchMerging(std::int64_t channels, std::int64_t out_channels, std::int64_t stride)
    : conv1(channels, out_channels),
      conv2(out_channels, 3, stride),
      conv3(out_channels, out_channels) {}

void PatchMerging::visit(ParamVisitor& v) {
  v("conv1", conv1);
  v("conv2", conv2);
  v("conv3", conv3);
}

View PatchMerging::forward(Context& ctx, ConstView x) const {
  const View out = ctx.workspace.floats(conv2.c.out_shape(x.shape));
  bottleneck(ctx, x, convolutions(*this), out);
  ctx.record(path, out);
  return out;
}

// ---------------------------------------------------------------- Attention

TinyViTAttention::TinyViTAttention(std::int64_t channels, std::int64_t heads, std::int64_t window)
    : num_heads(heads),
      window_size(window),
      norm(channels, 1e-5F),
      qkv(channels, 3 * channels),
      proj(channels, channels) {}

void TinyViTAttention::visit(ParamVisitor& v) {
  v("attention_biases", attention_biases, {num_heads, window_size * window_size});
  v("norm", norm);
  v("qkv", qkv);
  v("proj", proj);
}

// Rows of qkv are q, k, v of the first head, then of the next; attention takes q of all heads
// first.
void TinyViTAttention::fold() {
  const std::int64_t width = proj.in_features / num_heads;
  std::vector<std::int64_t> order;
  for (std::int64_t part = 0; part < 3; ++part) {
    for (std::int64_t i = 0; i < proj.in_features; ++i) {
      order.push_back((i / width * 3 + part) * width + i % width);
    }
  }
  qkv.reorder_rows(order);
}

void TinyViTAttention::pack(const KernelTable& kernels) {
  Workspace workspace;
  Context ctx{.kernels = kernels, .workspace = workspace};
  pad_qkv = Tensor::copy_of(qkv.forward(ctx, norm.bias.view().reshape({1, norm.channels})));
}

void TinyViTAttention::forward_add(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t height = x.shape[1], width = x.shape[2];
  const DistanceTerms distances =
      pack_distances(ctx, attention_biases.view().reshape({num_heads, window_size, window_size}),
                     {.height = height, .width = width, .size = window_size});
  const WindowGroups groups(height, width, window_size);
  if (!groups.enough_for(ctx.num_threads)) return forward_part(ctx, x, distances, out);
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    for_window_groups(ctx, groups, x[b], out[b], [&](Context& own, ConstView part, View result) {
      forward_part(own, part, distances, result);
    });
  }
}

void TinyViTAttention::forward_part(Context& ctx, ConstView x, const DistanceTerms& distances,
                                    View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View projected = qkv.forward(ctx, norm.forward(ctx, x));
  const View attended = ctx.workspace.floats(x.shape);
  const std::int64_t head_dim = proj.in_features / num_heads;
  // Beside int8 it stays float32: its windows are small.
  const Products products = qkv.packed.format == WeightFormat::kInt8
                                ? Products::kFloat32
                                : products_beside(ctx, qkv.packed.format);
  window_attention(ctx,
                   {.qkv = projected,
                    .grid = {.height = x.shape[1], .width = x.shape[2], .size = window_size},
                    .num_heads = num_heads,
                    .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
                    .rel_pos = {},
                    .pad_qkv = pad_qkv.data(),
                    .distances = &distances,
                    .products = products},
                   attended);
  proj.forward_add(ctx, attended, x, out);
}

// ---------------------------------------------------------------- Mlp

TinyViTMlp::TinyViTMlp(std::int64_t channels, std::int64_t hidden)
    : norm(channels, 1e-5F), fc1(channels, hidden), fc2(hidden, channels) {}

void TinyViTMlp::visit(ParamVisitor& v) {
  v("norm", norm);
  v("fc1", fc1);
  v("fc2", fc2);
}

void TinyViTMlp::forward_add_(Context& ctx, View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  mlp_add_(ctx, fc1, Activation::kGelu, fc2, norm.forward(ctx, x), x);
}

// ---------------------------------------------------------------- Block

TinyViTBlock::TinyViTBlock(const TinyViTConfig& config, std::int64_t layer)
    : attn(config.embed_dims[at(layer)], config.num_heads[at(layer)],
           config.window_sizes[at(layer)]),
      mlp(config.embed_dims[at(layer)], config.mlp_ratio * config.embed_dims[at(layer)]),
      local_conv(config.embed_dims[at(layer)], config.local_conv_size) {}

void TinyViTBlock::visit(ParamVisitor& v) {
  v("attn", attn);
  v("mlp", mlp);
  v("local_conv", local_conv);
}

void TinyViTBlock::forward(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View y = ctx.workspace.floats(x.shape);
  attn.forward_add(ctx, x, y);
  local_conv.c.forward(ctx, y, Activation::kNone, out);
  mlp.forward_add_(ctx, out);
  ctx.record(path, out);
}

// ---------------------------------------------------------------- TinyViT

TinyViT::TinyViT(std::int64_t in_chans, const TinyViTConfig& sizes) : config(sizes) {
  if (!config.fits()) fail_internal("TinyViT: sizes do not match");
  const std::int64_t width = config.embed_dims[0];
  patch_embed = TinyViTPatchEmbed(in_chans, config);
  for (std::int64_t j = 0; j < config.depths[0]; ++j) {
    conv_layer.blocks.emplace_back(width, config.mbconv_expand_ratio * width);
  }
  conv_layer.downsample = merging(config, 0);
  for (std::int64_t i = 1; i < config.num_layers(); ++i) {
    TinyViTLayer<TinyViTBlock>& layer = layers.emplace_back();
    for (std::int64_t j = 0; j < config.depths[at(i)]; ++j) layer.blocks.emplace_back(config, i);
    layer.downsample = merging(config, i);
  }
}

void TinyViT::visit(ParamVisitor& v) {
  v("patch_embed", patch_embed);
  v("layers.0", conv_layer);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    v(("layers." + std::to_string(i + 1)).c_str(), layers[i]);
  }
}

View TinyViT::forward(Context& ctx, ConstView image, std::span<const View> early) const {
  View x = conv_layer.forward(ctx, patch_embed.forward(ctx, image));
  for (const TinyViTLayer<TinyViTBlock>& layer : layers) {
    x = layer.forward(ctx, x);
    if (!early.empty() && &layer == &layers.front()) copy_(ctx, early.front(), x);
  }
  return x;
}

}  // namespace sam_rlx::trunks
