#include "models/sam3/student.h"

#include "core/error.h"
#include "ops/resize.h"

namespace sam_rlx::sam3 {
namespace {

std::variant<trunks::RepVit, trunks::TinyViT> backbone_of(const ViTConfig& sizes) {
  if (!sizes.student) fail_internal("StudentTrunk: no sizes");
  if (sizes.student->rep_vit) return trunks::RepVit(*sizes.student->rep_vit);
  if (!sizes.student->tiny_vit) fail_internal("StudentTrunk: no sizes");
  return trunks::TinyViT(sizes.in_chans, *sizes.student->tiny_vit);
}

View map_of(Context& ctx, const trunks::RepVit& backbone, ConstView image) {
  return backbone.forward(ctx, image).back();
}
View map_of(Context& ctx, const trunks::TinyViT& backbone, ConstView image) {
  return backbone.forward(ctx, image);
}

// map (h, w, C) -> out (H, W, C), first along the columns.
void resize_bilinear_hwc(Context& ctx, ConstView map, View out) {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t height = out.shape[0], width = map.shape[1], channels = map.shape[2];
  const View rows = ctx.workspace.floats({height, width, channels});
  resize_linear_rows(ctx, map.reshape({map.shape[0], width * channels}),
                     rows.reshape({height, width * channels}));
  for (std::int64_t i = 0; i < height; ++i) resize_linear_rows(ctx, rows[i], out[i]);
}

}  // namespace

// ---------------------------------------------------------------- StudentHead

StudentHead::StudentHead(std::int64_t in_chans, std::int64_t embed_dim)
    : conv1(in_chans, embed_dim, kConv1x1, false),
      norm(embed_dim),
      conv2(embed_dim, embed_dim, kConv3x3) {}

void StudentHead::visit(ParamVisitor& v) {
  v("0", conv1);
  v("1", norm);
  v("3", conv2);
}

void StudentHead::forward(Context& ctx, ConstView x, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View wide = ctx.workspace.floats(conv1.out_shape(x.shape));
  conv2d(ctx, x, conv1.window, conv1.packed,
         {.bias = conv1.bias.data(), .activation = Activation::kGelu}, wide);
  if (x.shape[1] == out.shape[1] && x.shape[2] == out.shape[2]) {
    conv2.forward(ctx, wide, {}, out);
  } else {
    resize_bilinear_hwc(ctx, conv2.forward(ctx, wide)[0], out[0]);
  }
  ctx.record(path, out);
}

// ---------------------------------------------------------------- StudentTrunk

StudentTrunk::StudentTrunk(const ViTConfig& sizes)
    : config(sizes),
      backbone(backbone_of(sizes)),
      head(sizes.student->channels(), sizes.embed_dim) {}

void StudentTrunk::visit(ParamVisitor& v) {
  std::visit([&](auto& network) { v("model.backbone.model", network); }, backbone);
  v("model.head", head);
}

View StudentTrunk::forward(Context& ctx, ConstView image) const {
  const std::int64_t g = config.grid();
  const View out = ctx.workspace.floats({1, g, g, config.embed_dim});
  const Workspace::Scope scratch(ctx.workspace);
  const View map =
      std::visit([&](const auto& network) { return map_of(ctx, network, image); }, backbone);
  head.forward(ctx, map, out);
  ctx.check_interrupt();
  return out;
}

}  // namespace sam_rlx::sam3
