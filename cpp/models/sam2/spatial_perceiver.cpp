#include "models/sam2/spatial_perceiver.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "layers/mlp.h"
#include "layers/position_encoding.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/window_partition.h"

namespace sam_rlx::sam2 {

// ---------------------------------------------------------------- PerceiverAttention

PerceiverAttention::PerceiverAttention(std::int64_t dim, bool is_to_itself)
    : to_itself(is_to_itself),
      norm_x(dim, 1e-5F),
      norm_latents(dim, 1e-5F),
      to_q(dim, dim, false),
      to_k(dim, dim, false),
      to_v(dim, dim, false),
      to_out(dim, dim, false) {}

void PerceiverAttention::visit(ParamVisitor& v) {
  if (!to_itself) v("norm_x", norm_x);
  v(to_itself ? "norm" : "norm_latents", norm_latents);
  v("to_q", to_q);
  v("to_kv.weight", to_kv, {2 * to_q.in_features, to_q.in_features});
  v("to_out", to_out);
}

void PerceiverAttention::fold() {
  const std::int64_t dim = to_q.in_features;
  to_k.weight = Tensor::copy_of(ConstView(to_kv.data(), {dim, dim}));
  to_v.weight = Tensor::copy_of(ConstView(to_kv.data() + dim * dim, {dim, dim}));
  to_kv = Tensor();
}

void PerceiverAttention::pack(const KernelTable& kernels) {
  to_k.pack(kernels);
  to_v.pack(kernels);
}

void PerceiverAttention::forward_add_(Context& ctx, View latents, ConstView x, ConstView pos,
                                      std::int64_t groups) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t dim = to_q.in_features, count = latents.shape[0];
  const View normed = norm_latents.forward(ctx, latents);
  const ConstView inputs = to_itself ? ConstView(normed) : ConstView(norm_x.forward(ctx, x));
  const View q = to_q.forward(ctx, normed);
  const View k = to_k.forward(ctx, inputs), v = to_v.forward(ctx, inputs);
  if (pos) {
    add_(ctx, k, pos);
    add_(ctx, v, pos);
  }
  const View attended = ctx.workspace.floats({groups, count / groups, dim});
  attention(ctx,
            {.num_heads = 1,
             .head_dim = dim,
             .value_dim = dim,
             .scale = 1.0F / std::sqrt(static_cast<float>(dim)),
             .query = {q.data, dim},
             .key = {k.data, dim},
             .value = {v.data, dim},
             .num_queries = count / groups,
             .num_keys = inputs.shape[0] / groups,
             .batch = groups},
            attended);
  to_out.forward_add(ctx, attended.reshape({count, dim}), latents, latents);
}

// ---------------------------------------------------------------- PerceiverFeedForward

PerceiverFeedForward::PerceiverFeedForward(std::int64_t dim, std::int64_t mult)
    : norm(dim, 1e-5F), fc1(dim, mult * dim, false), fc2(mult * dim, dim, false) {}

void PerceiverFeedForward::visit(ParamVisitor& v) {
  v("0", norm);
  v("1", fc1);
  v("3", fc2);
}

void PerceiverFeedForward::forward_add_(Context& ctx, View latents) const {
  const Workspace::Scope scratch(ctx.workspace);
  mlp_add_(ctx, fc1, Activation::kGelu, fc2, norm.forward(ctx, latents), latents);
}

// ---------------------------------------------------------------- PerceiverLayer

PerceiverLayer::PerceiverLayer(const SpatialPerceiverConfig& config)
    : attn(config.dim, false),
      ff(config.dim, config.ff_mult),
      self_attn(config.dim, true),
      self_ff(config.dim, config.ff_mult) {}

void PerceiverLayer::visit(ParamVisitor& v) {
  v("attn", attn);
  v("ff", ff);
  v("self_attn", self_attn);
  v("self_ff", self_ff);
}

void PerceiverLayer::forward_(Context& ctx, View latents, ConstView x, ConstView pos,
                              std::int64_t groups) const {
  attn.forward_add_(ctx, latents, x, pos, groups);
  ff.forward_add_(ctx, latents);
  self_attn.forward_add_(ctx, latents, latents, {}, groups);
  self_ff.forward_add_(ctx, latents);
}

// ---------------------------------------------------------------- SpatialPerceiver

SpatialPerceiver::SpatialPerceiver(const SpatialPerceiverConfig& sizes, std::int64_t side)
    : config(sizes), grid(side), norm(sizes.dim, 1e-5F) {
  for (std::int64_t i = 0; i < config.depth; ++i) layers.emplace_back(config);
}

void SpatialPerceiver::visit(ParamVisitor& v) {
  v("latents", latents, {config.num_latents, config.dim});
  v("latents_2d", latents_2d, {config.num_latents_2d, config.dim});
  v("layers", layers);
  v("norm", norm);
}

void SpatialPerceiver::fold() {
  const PositionEmbeddingSine encoding{.num_pos_feats = config.dim};
  map_pos = encoding.dense(grid, grid);
}

void SpatialPerceiver::forward(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t dim = config.dim, positions = grid * grid;
  const View all(out.data, {config.num_latents, dim});
  const View local(out.data + all.numel(), {config.num_latents_2d, dim});
  copy_(ctx, all, latents);
  copy_(ctx, local, latents_2d);
  const View windows =
      ctx.workspace.floats({config.num_latents_2d, positions / config.num_latents_2d, dim});
  window_partition(ctx, x, grid / config.windows(), windows);
  const Shape tokens{positions, dim};
  for (const PerceiverLayer& layer : layers) {
    layer.forward_(ctx, all, x.reshape(tokens), map_pos.view().reshape(tokens), 1);
    layer.forward_(ctx, local, windows.reshape(tokens), {}, config.num_latents_2d);
    ctx.check_interrupt();
  }
  norm.forward_(ctx, out);
  ctx.record(path, out);
}

Tensor SpatialPerceiver::positions() const {
  Tensor out = Tensor::zeros({config.num_tokens(), config.dim});
  const PositionEmbeddingSine encoding{.num_pos_feats = config.dim};
  const Tensor local = encoding.dense(config.windows(), config.windows());
  std::copy_n(local.data(), local.numel(), out.data() + config.num_latents * config.dim);
  return out;
}

}  // namespace sam_rlx::sam2
