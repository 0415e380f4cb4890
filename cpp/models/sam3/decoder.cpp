#include "models/sam3/decoder.h"

#include <algorithm>
#include <array>

#include "ops/boxes.h"
#include "ops/elementwise.h"
#include "ops/scores.h"

namespace sam_rlx::sam3 {

// ---------------------------------------------------------------- TransformerDecoderLayer

TransformerDecoderLayer::TransformerDecoderLayer(const DetectorConfig& config)
    : cross_attn(config.d_model, config.num_heads),
      self_attn(config.d_model, config.num_heads),
      ca_text(config.d_model, config.num_heads),
      linear1(config.d_model, config.dim_feedforward),
      linear2(config.dim_feedforward, config.d_model),
      norm1(config.d_model, 1e-5F),
      catext_norm(config.d_model, 1e-5F),
      norm2(config.d_model, 1e-5F),
      norm3(config.d_model, 1e-5F) {}

void TransformerDecoderLayer::visit(ParamVisitor& v) {
  v("cross_attn", cross_attn);
  v("norm1", norm1);
  v("ca_text", ca_text);
  v("catext_norm", catext_norm);
  v("self_attn", self_attn);
  v("norm2", norm2);
  v("linear1", linear1);
  v("linear2", linear2);
  v("norm3", norm3);
}

void TransformerDecoderLayer::forward_(Context& ctx, const Inputs& in, View x) const {
  const Workspace::Scope scratch(ctx.workspace);

  const View with_pos = add(ctx, x, in.query_pos);
  self_attn.forward_add_(ctx, {.query = with_pos, .key = with_pos, .value = x}, x);
  norm2.forward_(ctx, x);

  ca_text.attend_to_tokens_add_(ctx, add(ctx, x, in.query_pos), in.memory_text, x);
  catext_norm.forward_(ctx, x);

  cross_attn.forward_add_(ctx,
                          {.query = add(ctx, x, in.query_pos),
                           .key = in.memory_key,
                           .value = in.memory,
                           .bias = in.bias},
                          x);
  norm1.forward_(ctx, x);

  mlp_add_(ctx, linear1, Activation::kRelu, linear2, x, x);
  norm3.forward_(ctx, x);
  ctx.record(path, x);
}

// ---------------------------------------------------------------- TransformerDecoder

TransformerDecoder::TransformerDecoder(const DetectorConfig& sizes)
    : config(sizes),
      norm(sizes.d_model, 1e-5F),
      bbox_embed(sizes.d_model, sizes.d_model, 4, 3),
      query_embed(sizes.num_queries, sizes.d_model),
      reference_points(sizes.num_queries, 4),
      boxRPB_embed_x(2, sizes.d_model, sizes.num_heads, 2),
      boxRPB_embed_y(2, sizes.d_model, sizes.num_heads, 2),
      presence_token(1, sizes.d_model),
      presence_token_head(sizes.d_model, sizes.d_model, 1, 3),
      presence_token_out_norm(sizes.d_model, 1e-5F),
      ref_point_head(2 * sizes.d_model, sizes.d_model, sizes.d_model, 2) {
  sine_embed.num_pos_feats = config.d_model;
  for (std::int64_t i = 0; i < config.decoder_layers; ++i) layers.emplace_back(config);
}

void TransformerDecoder::visit(ParamVisitor& v) {
  v("layers", layers);
  v("norm", norm);
  v("bbox_embed", bbox_embed);
  v("query_embed", query_embed);
  v("reference_points", reference_points);
  v("boxRPB_embed_x", boxRPB_embed_x);
  v("boxRPB_embed_y", boxRPB_embed_y);
  v("presence_token", presence_token);
  v("presence_token_head", presence_token_head);
  v("presence_token_out_norm", presence_token_out_norm);
  v("ref_point_head", ref_point_head);
}

void TransformerDecoder::fold() { frequencies = sine_embed.frequencies(); }

void TransformerDecoder::encode_positions(Context& ctx, ConstView boxes, View query_pos) const {
  const Workspace::Scope scratch(ctx.workspace);
  constexpr std::array kEncoded{1, 0, 2, 3};  // y, x, w, h
  const View sines = ctx.workspace.floats({boxes.shape[0], 2 * config.d_model});
  encode_coordinates(ctx, boxes, {frequencies, kEncoded, {}}, sines);
  copy_(ctx, query_pos, ref_point_head.forward(ctx, sines));
}

void TransformerDecoder::box_bias(Context& ctx, ConstView boxes, View rows, View cols) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t queries = boxes.shape[0], heads = config.num_heads;
  const std::int64_t height = rows.shape[2], width = cols.shape[2];
  const View row_distances = ctx.workspace.floats({queries, height, 2});
  const View col_distances = ctx.workspace.floats({queries, width, 2});
  box_distances(ctx, boxes, row_distances, col_distances);
  const View by_row = boxRPB_embed_y.forward(ctx, row_distances);
  const View by_col = boxRPB_embed_x.forward(ctx, col_distances);
  transpose(ctx, by_row.reshape({queries * height, heads}),
            rows.reshape({heads, queries * height}));
  transpose(ctx, by_col.reshape({queries * width, heads}), cols.reshape({heads, queries * width}));
}

TransformerDecoder::Decoded TransformerDecoder::forward(Context& ctx, const Inputs& in) const {
  const std::int64_t queries = config.num_queries, channels = config.d_model;
  const std::int64_t height = in.memory.shape[0], width = in.memory.shape[1];
  Decoded out{ctx.workspace.floats({queries, channels}), ctx.workspace.floats({queries, 4})};
  const Workspace::Scope scratch(ctx.workspace);
  const Shape positions{height * width, channels};
  const ConstView memory = in.memory.reshape(positions);
  const View memory_key = add(ctx, memory, in.pos.reshape(positions));

  // The presence token has no box: its position is zero, and no bias is added for it.
  const View x = ctx.workspace.floats({1 + queries, channels});
  const View tokens{x.data + channels, Shape{queries, channels}};
  copy_(ctx, x[0], presence_token.weight);
  copy_(ctx, tokens, query_embed.weight);
  const View query_pos = ctx.workspace.floats(x.shape);
  std::fill_n(query_pos.data, channels, 0.0F);
  copy_(ctx, out.boxes, reference_points.weight);
  sigmoid_(ctx, out.boxes);
  const View rows = ctx.workspace.floats({config.num_heads, queries, height});
  const View cols = ctx.workspace.floats({config.num_heads, queries, width});

  std::int64_t next = 0;
  for (const TransformerDecoderLayer& layer : layers) {
    const Workspace::Scope inner(ctx.workspace);
    if (in.reference_boxes.data != nullptr) copy_(ctx, in.reference_boxes[next++], out.boxes);
    encode_positions(ctx, out.boxes, {query_pos.data + channels, tokens.shape});
    box_bias(ctx, out.boxes, rows, cols);
    layer.forward_(ctx, {query_pos, in.memory_text, memory, memory_key, {rows, cols, 1}}, x);
    layer_norm(ctx, tokens, norm.weight, norm.bias, norm.eps, out.hidden_states);
    refine_boxes_(ctx, out.boxes, bbox_embed.forward(ctx, out.hidden_states));
    ctx.record(layer.path + ".boxes", out.boxes);
    ctx.check_interrupt();
  }

  const View presence = presence_token_out_norm.forward(ctx, x[0].reshape({1, channels}));
  const auto limit = static_cast<float>(config.presence_limit);
  out.presence_logit =
      std::clamp(presence_token_head.forward(ctx, presence).data[0], -limit, limit);
  ctx.record(path + ".norm", out.hidden_states);
  return out;
}

}  // namespace sam_rlx::sam3
