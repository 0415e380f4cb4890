#include "models/sam3/text_encoder.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "layers/mlp.h"
#include "ops/causal_attention.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"

namespace sam_rlx::sam3 {

// ---------------------------------------------------------------- TextAttention

void TextAttention::visit(ParamVisitor& v) {
  v.matrix("in_proj_weight", in_proj.weight, in_proj.blocks,
           {in_proj.out_features, in_proj.in_features});
  v("in_proj_bias", in_proj.bias, {in_proj.out_features});
  v("out_proj", out_proj);
}

void TextAttention::forward_add_(Context& ctx, ConstView input, const TextRows& rows,
                                 View x) const {
  const Workspace::Scope scratch(ctx.workspace);
  const auto head_dim = static_cast<float>(out_proj.in_features / num_heads);
  const View qkv = in_proj.forward(ctx, input);
  const View merged = ctx.workspace.floats(input.shape);
  causal_attention(ctx,
                   {.qkv = qkv,
                    .begins = rows.begins,
                    .num_heads = num_heads,
                    .scale = 1.0F / std::sqrt(head_dim),
                    .hidden = rows.hidden},
                   merged);
  out_proj.forward_add(ctx, merged, x, x);
}

// ---------------------------------------------------------------- ResidualAttentionBlock

void TextMlp::visit(ParamVisitor& v) {
  v("c_fc", c_fc);
  v("c_proj", c_proj);
}

ResidualAttentionBlock::ResidualAttentionBlock(const TextEncoderConfig& config)
    : attn(config.width, config.heads),
      ln_1(config.width, static_cast<float>(config.layer_norm_eps)),
      ln_2(config.width, static_cast<float>(config.layer_norm_eps)) {
  const std::int64_t hidden = TextEncoderConfig::kMlpRatio * config.width;
  mlp = {.c_fc = Linear(config.width, hidden), .c_proj = Linear(hidden, config.width)};
}

void ResidualAttentionBlock::visit(ParamVisitor& v) {
  v("attn", attn);
  v("ln_1", ln_1);
  v("ln_2", ln_2);
  v("mlp", mlp);
}

void ResidualAttentionBlock::forward_(Context& ctx, View x, const TextRows& rows) const {
  const Workspace::Scope scratch(ctx.workspace);
  attn.forward_add_(ctx, ln_1.forward(ctx, x), rows, x);
  mlp_add_(ctx, mlp.c_fc, Activation::kGelu, mlp.c_proj, ln_2.forward(ctx, x), x);
  ctx.record(path, x);
}

// ---------------------------------------------------------------- TextTransformer

std::int64_t TokenIds::valid_length(std::int64_t i) const {
  const std::int64_t* const ids = text(i);
  std::int64_t valid = length;
  while (valid > 0 && ids[valid - 1] == 0) --valid;
  return valid;
}

TextTransformer::TextTransformer(const TextEncoderConfig& sizes)
    : config(sizes), ln_final(sizes.width, static_cast<float>(sizes.layer_norm_eps)) {
  for (std::int64_t i = 0; i < config.layers; ++i) {
    transformer.resblocks.emplace_back(config);
  }
}

void TextTransformer::visit(ParamVisitor& v) {
  v("positional_embedding", positional_embedding, {config.context_length, config.width});
  v.matrix("token_embedding.weight", token_embedding, token_blocks,
           {config.vocab_size, config.width});
  v("transformer", transformer);
  v("ln_final", ln_final);
}

View TextTransformer::forward(Context& ctx, const TokenIds& ids, const TextRows& all) const {
  const Begins begins = all.begins;
  const View x = ctx.workspace.floats({begins.back(), config.width});
  for (std::int64_t i = 0; i < ids.count; ++i) {
    const std::int64_t first = begins[static_cast<std::size_t>(i)];
    const Shape rows{begins[static_cast<std::size_t>(i) + 1] - first, config.width};
    const View text{x.data + first * config.width, rows};
    if (token_blocks) {
      embedding(ctx, token_blocks, ids.text(i), text);
    } else {
      embedding(ctx, token_embedding, ids.text(i), text);
    }
    add_(ctx, text, {positional_embedding.data(), rows});
  }
  for (const ResidualAttentionBlock& block : transformer.resblocks) {
    block.forward_(ctx, x, all);
    ctx.check_interrupt();
  }
  ln_final.forward_(ctx, x);
  ctx.record(ln_final.path, x);
  return x;
}

// ---------------------------------------------------------------- VETextEncoder

ConstView TextFeatures::text(std::int64_t i) const {
  const std::int64_t first = begins[static_cast<std::size_t>(i)];
  const std::int64_t rows = begins[static_cast<std::size_t>(i) + 1] - first;
  return {tokens.data + first * tokens.shape[1], {rows, tokens.shape[1]}};
}

const bool* TextFeatures::text_padding(std::int64_t i) const {
  return padding + begins[static_cast<std::size_t>(i)];
}

VETextEncoder::VETextEncoder(const TextEncoderConfig& sizes)
    : config(sizes), resizer(sizes.width, sizes.d_model) {
  if (config.mobile_clip) {
    mobile_clip = MobileClipTextTransformer(sizes);
  } else {
    encoder = TextTransformer(sizes);
  }
}

void VETextEncoder::visit(ParamVisitor& v) {
  if (config.mobile_clip) {
    v("encoder", mobile_clip);
    v("projector", resizer);
  } else {
    v("encoder", encoder);
    v("resizer", resizer);
  }
}

View VETextEncoder::encoded(Context& ctx, const TokenIds& ids, Begins begins) const {
  if (!config.mobile_clip) return encoder.forward(ctx, ids, {begins});
  // The rows of each text without its padding.
  const View rows = ctx.workspace.floats({begins.back(), config.width});
  const Workspace::Scope scratch(ctx.workspace);
  const View all = mobile_clip.forward(ctx, ids);
  for (std::int64_t i = 0; i < ids.count; ++i) {
    const auto text = static_cast<std::size_t>(i);
    std::copy_n(all.data + i * config.context_length * config.width,
                (begins[text + 1] - begins[text]) * config.width,
                rows.data + begins[text] * config.width);
  }
  return rows;
}

void VETextEncoder::check(const TokenIds& ids) const {
  if (ids.count < 1 || ids.length < 1 || ids.length > config.context_length) {
    fail("ids", "shape (N, L) with 1 <= L <= " + std::to_string(config.context_length),
         Shape{ids.count, ids.length}.str());
  }
}

TextFeatures VETextEncoder::forward(Context& ctx, const TokenIds& ids) const {
  check(ids);
  auto* const begins = ctx.workspace.array<std::int64_t>(ids.count + 1);
  begins[0] = 0;
  for (std::int64_t i = 0; i < ids.count; ++i) {
    const std::int64_t valid = ids.valid_length(i);
    if (valid == 0) fail("ids", "an id other than 0", "none in text " + std::to_string(i));
    begins[i + 1] = begins[i] + valid;
  }
  const std::int64_t rows = begins[ids.count];
  bool* const padding = ctx.workspace.array<bool>(rows);
  for (std::int64_t i = 0; i < ids.count; ++i) {
    std::transform(ids.text(i), ids.text(i) + begins[i + 1] - begins[i], padding + begins[i],
                   [](std::int64_t id) { return id == 0; });
  }
  TextFeatures out{.tokens = ctx.workspace.floats({rows, config.d_model}),
                   .padding = padding,
                   .begins = {begins, static_cast<std::size_t>(ids.count) + 1}};
  const Workspace::Scope scratch(ctx.workspace);
  const View x = encoded(ctx, ids, out.begins);
  linear(ctx, x, resizer.packed, {.bias = resizer.bias.data()}, out.tokens);
  ctx.record(resizer.path, out.tokens);
  return out;
}

VETextEncoder::AllRows VETextEncoder::forward_all(Context& ctx, const TokenIds& ids,
                                                  const bool* hidden) const {
  check(ids);
  if (config.mobile_clip) {
    fail<UnsupportedError>("ids", "SAM 3's text encoder, for the rows of all ids", "MobileCLIP's");
  }
  auto* const begins = ctx.workspace.array<std::int64_t>(ids.count + 1);
  for (std::int64_t i = 0; i <= ids.count; ++i) begins[i] = i * ids.length;
  const std::int64_t rows = ids.count * ids.length;
  AllRows out{.hidden_states = ctx.workspace.floats({rows, config.width}),
              .tokens = ctx.workspace.floats({rows, config.d_model})};
  const Workspace::Scope scratch(ctx.workspace);
  const Begins all{begins, static_cast<std::size_t>(ids.count) + 1};
  copy_(ctx, out.hidden_states, encoder.forward(ctx, ids, {all, hidden}));
  linear(ctx, out.hidden_states, resizer.packed, {.bias = resizer.bias.data()}, out.tokens);
  return out;
}

}  // namespace sam_rlx::sam3
