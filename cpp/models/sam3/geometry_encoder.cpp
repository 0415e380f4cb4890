#include "models/sam3/geometry_encoder.h"

#include <array>

#include "core/error.h"
#include "ops/boxes.h"
#include "ops/elementwise.h"
#include "ops/sampling.h"

namespace sam_rlx::sam3 {

SequenceGeometryEncoder::SequenceGeometryEncoder(const DetectorConfig& sizes)
    : config(sizes),
      label_embed(2, sizes.d_model),
      cls_embed(1, sizes.d_model),
      points_direct_project(2, sizes.d_model),
      points_pool_project(sizes.d_model, sizes.d_model),
      points_pos_enc_project(sizes.d_model, sizes.d_model),
      boxes_direct_project(4, sizes.d_model),
      boxes_pos_enc_project(sizes.d_model + 2, sizes.d_model),
      boxes_pool_project(sizes.d_model, sizes.d_model, conv_patches(sizes.roi_size)),
      final_proj(sizes.d_model, sizes.d_model),
      norm(sizes.d_model, 1e-5F),
      img_pre_norm(sizes.d_model, 1e-5F),
      encode_norm(sizes.d_model, 1e-5F) {
  pos_enc.num_pos_feats = config.d_model;
  for (std::int64_t i = 0; i < config.geometry_layers; ++i) encode.emplace_back(config);
}

void SequenceGeometryEncoder::visit(ParamVisitor& v) {
  if (!config.geometry) return;
  v("label_embed", label_embed);
  v("cls_embed", cls_embed);
  if (config.encode_points) {
    v("points_direct_project", points_direct_project);
    v("points_pool_project", points_pool_project);
    v("points_pos_enc_project", points_pos_enc_project);
  }
  v("boxes_direct_project", boxes_direct_project);
  v("boxes_pool_project", boxes_pool_project);
  v("boxes_pos_enc_project", boxes_pos_enc_project);
  v("final_proj", final_proj);
  v("norm", norm);
  v("img_pre_norm", img_pre_norm);
  v("encode", encode);
  v("encode_norm", encode_norm);
}

void SequenceGeometryEncoder::fold() { frequencies = pos_enc.frequencies(); }

void SequenceGeometryEncoder::embed_labels(Context& ctx, const std::int32_t* labels,
                                           View out) const {
  for (std::int64_t i = 0; i < out.shape[0]; ++i) {
    if (labels[i] != 0 && labels[i] != 1) fail(path, "labels 0 and 1", std::to_string(labels[i]));
    copy_(ctx, out[i], label_embed.weight.view()[labels[i]]);
  }
}

void SequenceGeometryEncoder::encode_points(Context& ctx, const GeometricPrompt& prompt,
                                            ConstView pooled, View out) const {
  if (!config.encode_points) {
    fail<UnsupportedError>("points", "boxes: the checkpoint, of transformers, encodes no points",
                           std::to_string(prompt.num_points()) + " points");
  }
  const Workspace::Scope scratch(ctx.workspace);
  embed_labels(ctx, prompt.point_labels, out);
  points_direct_project.forward_add(ctx, prompt.points, out, out);

  const View sampled = ctx.workspace.floats(out.shape);
  sample_points(ctx, pooled, prompt.points, sampled);
  points_pool_project.forward_add(ctx, sampled, out, out);

  constexpr std::array kEncoded{0, 1};  // x, then y
  const View encoded = ctx.workspace.floats(out.shape);
  encode_coordinates(ctx, prompt.points, {frequencies, kEncoded, {}}, encoded);
  points_pos_enc_project.forward_add(ctx, encoded, out, out);
}

void SequenceGeometryEncoder::encode_boxes(Context& ctx, const GeometricPrompt& prompt,
                                           ConstView pooled, View out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t count = out.shape[0], channels = config.d_model, size = config.roi_size;
  embed_labels(ctx, prompt.box_labels, out);
  if (prompt.box_positions) boxes_direct_project.forward_add(ctx, prompt.boxes, out, out);

  const View corners = ctx.workspace.floats(prompt.boxes.shape);
  box_corners(ctx, prompt.boxes, static_cast<float>(pooled.shape[1]),
              static_cast<float>(pooled.shape[0]), corners);
  const View sampled = ctx.workspace.floats({count, size, size, channels});
  roi_align(ctx, pooled, corners, sampled);
  const Shape positions{count, 1, 1, channels};
  boxes_pool_project.forward(ctx, sampled, out.reshape(positions), out.reshape(positions));

  if (!prompt.box_positions) return;
  constexpr std::array kEncoded{1, 0}, kPlain{3, 2};  // y, x, then h, w
  const View encoded = ctx.workspace.floats({count, channels + 2});
  encode_coordinates(ctx, prompt.boxes, {frequencies, kEncoded, kPlain}, encoded);
  boxes_pos_enc_project.forward_add(ctx, encoded, out, out);
}

View SequenceGeometryEncoder::forward(Context& ctx, const GeometricPrompt& prompt, ConstView map,
                                      ConstView pos) const {
  const std::int64_t points = prompt.num_points(), boxes = prompt.num_boxes();
  const std::int64_t channels = config.d_model;
  const View x = ctx.workspace.floats({points + boxes + 1, channels});
  const Workspace::Scope scratch(ctx.workspace);
  const View embeds = ctx.workspace.floats(x.shape);
  if (points + boxes > 0) {
    const View pooled = img_pre_norm.forward(ctx, map);
    if (points > 0) encode_points(ctx, prompt, pooled, {embeds.data, Shape{points, channels}});
    if (boxes > 0) {
      encode_boxes(ctx, prompt, pooled, {embeds.data + points * channels, Shape{boxes, channels}});
    }
  }
  copy_(ctx, embeds[points + boxes], cls_embed.weight);
  linear(ctx, embeds, final_proj.packed, {.bias = final_proj.bias.data()}, x);
  norm.forward_(ctx, x);
  ctx.record(path + ".norm", x);

  // The layers attend to the map as it is, not to the normed one.
  const Shape positions{map.shape[0] * map.shape[1], channels};
  for (const TransformerEncoderLayer& layer : encode) {
    layer.self_attention_(ctx, x, {});
    layer.attend_to_map_(ctx, x, map.reshape(positions), pos.reshape(positions));
    layer.feed_forward_(ctx, x);
  }
  encode_norm.forward_(ctx, x);
  ctx.record(path, x);
  return x;
}

}  // namespace sam_rlx::sam3
