#include "models/sam3/neck.h"

#include "core/error.h"
#include "layers/position_encoding.h"
#include "ops/pool.h"

namespace sam_rlx::sam3 {
namespace {

Trunk trunk_of(const ViTConfig& sizes) {
  if (sizes.student) return StudentTrunk(sizes);
  return ViT(sizes);
}

}  // namespace

// ---------------------------------------------------------------- NeckBranch

NeckBranch::NeckBranch(std::int64_t dim, std::int64_t d_model, double factor)
    : scale_factor(factor), conv_3x3(d_model, d_model, kConv3x3) {
  std::int64_t out_dim = dim;
  if (factor == 4.0) {
    dconv_2x2_0 = ConvTranspose2x2(dim, dim / 2);
    dconv_2x2_1 = ConvTranspose2x2(dim / 2, dim / 4);
    out_dim = dim / 4;
  } else if (factor == 2.0) {
    dconv_2x2 = ConvTranspose2x2(dim, dim / 2);
    out_dim = dim / 2;
  } else if (factor != 1.0 && factor != 0.5) {
    fail<UnsupportedError>("scale_factors", "4, 2, 1 or 0.5", std::to_string(factor));
  }
  conv_1x1 = Conv2d(out_dim, d_model, kConv1x1);
}

void NeckBranch::visit(ParamVisitor& v) {
  if (scale_factor == 4.0) {
    v("dconv_2x2_0", dconv_2x2_0);
    v("dconv_2x2_1", dconv_2x2_1);
  }
  if (scale_factor == 2.0) v("dconv_2x2", dconv_2x2);
  v("conv_1x1", conv_1x1);
  v("conv_3x3", conv_3x3);
}

void NeckBranch::fold() {
  if (scale_factor == 4.0) dconv_2x2_1.absorb(conv_1x1);
  if (scale_factor == 2.0) dconv_2x2.absorb(conv_1x1);
}

std::int64_t NeckBranch::side_of(std::int64_t grid) const {
  return static_cast<std::int64_t>(scale_factor * static_cast<double>(grid));
}

View NeckBranch::upscale(Context& ctx, ConstView x) const {
  if (scale_factor == 4.0) {
    return dconv_2x2_1.forward(ctx, dconv_2x2_0.forward(ctx, x, Activation::kGelu));
  }
  if (scale_factor == 2.0) return dconv_2x2.forward(ctx, x);
  if (scale_factor == 1.0) return conv_1x1.forward(ctx, x);
  const Shape& in = x.shape;
  const View pooled = ctx.workspace.floats({in[0], side_of(in[1]), side_of(in[2]), in[3]});
  max_pool2x2(ctx, x, pooled);
  return conv_1x1.forward(ctx, pooled);
}

void NeckBranch::forward(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  conv_3x3.forward(ctx, upscale(ctx, x), {}, out);
  ctx.record(path, out);
}

// ---------------------------------------------------------------- Sam3DualViTDetNeck

Sam3DualViTDetNeck::Sam3DualViTDetNeck(const VisionConfig& sizes)
    : config(sizes), trunk(trunk_of(sizes.trunk)) {
  const std::int64_t dim = config.trunk.embed_dim, d_model = config.neck.d_model;
  for (const double factor : config.neck.scale_factors) {
    convs.emplace_back(dim, d_model, factor);
    if (config.neck.add_sam2_neck) sam2_convs.emplace_back(dim, d_model, factor);
    if (config.neck.add_propagation_neck) propagation_convs.emplace_back(dim, d_model, factor);
  }
}

void Sam3DualViTDetNeck::visit(ParamVisitor& v) {
  std::visit([&](auto& network) { v("trunk", network); }, trunk);
  v("convs", convs);
  v(config.neck.add_propagation_neck ? "interactive_convs" : "sam2_convs", sam2_convs);
  v("propagation_convs", propagation_convs);
}

// The levels that are left out are in every checkpoint and never used.
void Sam3DualViTDetNeck::fold() {
  const PositionEmbeddingSine encoding{.num_pos_feats = config.neck.d_model};
  vision_pos_enc = encoding.dense(config.trunk.grid(), config.trunk.grid());
  const auto kept = static_cast<std::size_t>(config.neck.num_levels());
  if (!convs.empty() && !config.neck.keep_all_levels) convs.resize(kept);
  if (!sam2_convs.empty()) sam2_convs.resize(kept);
  if (!propagation_convs.empty()) propagation_convs.resize(kept);
}

std::vector<View> Sam3DualViTDetNeck::levels(Context& ctx, ConstView x,
                                             const std::vector<NeckBranch>& branches) const {
  std::vector<View> maps;
  for (std::int64_t i = 0; i < config.neck.num_levels(); ++i) {
    const NeckBranch& branch = branches[static_cast<std::size_t>(i)];
    const std::int64_t side = branch.side_of(config.trunk.grid());
    maps.push_back(ctx.workspace.floats({1, side, side, branch.out_channels()}));
    branch.forward(ctx, x, maps.back());
    ctx.check_interrupt();
  }
  return maps;
}

}  // namespace sam_rlx::sam3
