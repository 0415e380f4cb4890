#include "models/sam2/sam2.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"
#include "layers/position_encoding.h"
#include "ops/elementwise.h"
#include "ops/resize.h"
#include "ops/resize_antialias.h"

namespace sam_rlx::sam2 {
namespace {

constexpr std::int64_t kMaskGrain = 1 << 14;

ConstView plane(ConstView map) { return map.reshape({1, map.shape[0], map.shape[1]}); }
View plane(View map) { return map.reshape({1, map.shape[0], map.shape[1]}); }

}  // namespace

void clamp_prompt_logits(ConstView in, View out) {
  std::transform(in.data, in.data + in.numel(), out.data,
                 [](float logit) { return std::clamp(logit, -kMaxPromptLogit, kMaxPromptLogit); });
}

Sam2Heads::Sam2Heads(const HeadsConfig& sizes)
    : config(sizes),
      mask_downsample(1, 1, conv_patches(4)),
      memory_attention(sizes.memory_attention),
      memory_encoder(sizes.memory_encoder),
      sam_prompt_encoder({.embed_dim = sizes.hidden_dim(),
                          .image_embedding_size = sizes.base.grid(),
                          .input_image_size = sizes.base.image_size,
                          .mask_in_chans = sizes.base.mask_in_chans,
                          .corner_labels = true,
                          .padding_label = sizes.padding_label,
                          .layer_norm_eps = sizes.prompt_layer_norm_eps}),
      sam_mask_decoder(sizes.mask_decoder),
      obj_ptr_proj(sizes.hidden_dim(), sizes.hidden_dim(), sizes.hidden_dim(),
                   sizes.base.use_mlp_for_obj_ptr_proj ? 3 : 1),
      obj_ptr_tpos_proj(sizes.hidden_dim(), sizes.mem_dim()),
      no_obj_ptr_linear(sizes.hidden_dim(), sizes.hidden_dim()) {
  if (sizes.spatial_perceiver) {
    spatial_perceiver.emplace(*sizes.spatial_perceiver, sizes.base.grid());
  }
}

void Sam2Heads::visit(ParamVisitor& v) {
  const std::int64_t channels = config.hidden_dim(), width = config.mem_dim();
  v("no_mem_embed", no_mem_embed, {1, 1, channels});
  v("sam_prompt_encoder", sam_prompt_encoder);
  v("sam_mask_decoder", sam_mask_decoder);
  if (!config.memory) return;
  v("maskmem_tpos_enc", maskmem_tpos_enc, {config.memory_bank.num_maskmem, 1, 1, width});
  v("no_mem_pos_enc", no_mem_pos_enc, {1, 1, channels});
  v("no_obj_ptr", no_obj_ptr, {1, channels});
  if (config.base.no_obj_embed_spatial) {
    v("no_obj_embed_spatial", no_obj_embed_spatial, {1, width});
  }
  v("mask_downsample", mask_downsample);
  v("memory_attention", memory_attention);
  v("memory_encoder", memory_encoder);
  if (spatial_perceiver) v("spatial_perceiver", *spatial_perceiver);
  v("obj_ptr_proj", obj_ptr_proj);
  if (config.base.add_tpos_enc_to_obj_ptrs) v("obj_ptr_tpos_proj", obj_ptr_tpos_proj);
}

// ---------------------------------------------------------------- prompts and masks

void Sam2Heads::adopt_features(Context& ctx, std::span<const View> fpn, ImageFeatures& out) const {
  const ConstView coarsest = fpn.back()[0];
  if (out.embedding.shape() != coarsest.shape) out.embedding = Tensor(coarsest.shape);
  copy_(ctx, out.embedding, coarsest);
  ctx.record(sam_mask_decoder.path + ".conv_s0", fpn[0]);
  ctx.record(sam_mask_decoder.path + ".conv_s1", fpn[1]);
  MaskDecoder::adopt_high_res(ctx, fpn[0][0], fpn[1][0], out.high_res);
}

bool Sam2Heads::use_multimask(bool is_init_cond_frame, std::int64_t num_points) const {
  const Sam2BaseConfig& base = config.base;
  return (is_init_cond_frame || base.multimask_output_for_tracking) &&
         num_points >= base.multimask_min_pt_num && num_points <= base.multimask_max_pt_num;
}

void Sam2Heads::gate_obj_ptr_(Context& ctx, View obj_ptr, bool is_obj_appearing) const {
  if (is_obj_appearing) return;
  if (config.base.use_linear_no_obj_ptr) {
    const Workspace::Scope scratch(ctx.workspace);
    copy_(ctx, obj_ptr, no_obj_ptr_linear.forward(ctx, obj_ptr.reshape({1, obj_ptr.numel()})));
  } else if (config.memory) {
    copy_(ctx, obj_ptr, no_obj_ptr);
  }
}

SamOutputs Sam2Heads::forward_sam_heads(Context& ctx, const HeadInputs& in) const {
  const std::int64_t channels = config.hidden_dim(), low = 4 * in.backbone_features.shape[0];
  SamOutputs out{.low_res_mask = ctx.workspace.floats({low, low}),
                 .obj_ptr = ctx.workspace.floats({channels})};
  const Workspace::Scope scratch(ctx.workspace);

  // a) Points. Not given: a padding point, to which the encoder adds another. Given and empty: the
  // encoder's alone.
  constexpr double kNowhere[2] = {0.5, 0.5};
  constexpr std::int32_t kNoPoint = -1;
  sam::Prompt prompt = in.prompt;
  if (prompt.num_points == 0 && !prompt.has_points && prompt.box == nullptr) {
    prompt.points = kNowhere;
    prompt.labels = &kNoPoint;
    prompt.num_points = 1;
  }
  const View sparse = ctx.workspace.floats({sam::PromptEncoder::num_tokens(prompt), channels});
  sam_prompt_encoder.embed_tokens(prompt, sparse);

  // b) Mask.
  View map = ctx.workspace.floats(in.backbone_features.shape);
  if (prompt.mask) {
    ConstView mask = prompt.mask;
    if (mask.shape != Shape{low, low}) {
      const View resized = ctx.workspace.floats({low, low});
      resize_bilinear_antialias(ctx, plane(mask), plane(resized));
      mask = resized;
    }
    map = sam_prompt_encoder.embed_mask(ctx, mask)[0];
    add_(ctx, map, in.backbone_features);
  } else {
    copy_(ctx, map, in.backbone_features);
    add_(ctx, map, sam_prompt_encoder.no_mask_embed.weight);
  }

  const MaskDecoder::Decoded decoded = sam_mask_decoder.decode(
      ctx, {.map = map, .image_pe = sam_prompt_encoder.dense_pe, .sparse = sparse});
  out.object_score_logits = decoded.object_score_logit;
  const bool is_obj_appearing = out.object_score_logits > in.min_object_score;

  // The mask, its IoU and its token; the single mask's token is that of mask 0 in any case.
  std::int64_t index = 0, token = 0;
  if (in.multimask_output && in.all_masks != nullptr) {
    const View all = in.all_masks->logits;
    sam_mask_decoder.predict_masks(ctx, decoded, in.high_res, 1, all);
    if (!is_obj_appearing) std::fill_n(all.data, all.numel(), kNoObjScore);
    const auto count = static_cast<std::size_t>(all.shape[0]);
    const std::int64_t chosen = in.all_masks->choose({decoded.iou_predictions.data + 1, count});
    copy_(ctx, out.low_res_mask, all[chosen]);
    index = token = 1 + chosen;
  } else if (in.multimask_output) {
    index = token = sam_mask_decoder.best_multimask(decoded);
    sam_mask_decoder.predict_masks(ctx, decoded, in.high_res, index, plane(out.low_res_mask));
  } else {
    index = sam_mask_decoder.predict_single_mask(ctx, decoded, in.high_res, out.low_res_mask);
  }
  out.iou_prediction = decoded.iou_predictions.data[index];
  if (!is_obj_appearing) {
    std::fill_n(out.low_res_mask.data, out.low_res_mask.numel(), kNoObjScore);
  }

  const ConstView sam_output_token = decoded.mask_token(token).reshape({1, channels});
  copy_(ctx, out.obj_ptr, obj_ptr_proj.forward(ctx, sam_output_token));
  gate_obj_ptr_(ctx, out.obj_ptr, is_obj_appearing);
  return out;
}

SamOutputs Sam2Heads::use_mask_as_output(Context& ctx, const MaskInputs& in) const {
  const ConstView mask = in.mask;
  const std::int64_t low = 4 * in.backbone_features.shape[0];
  SamOutputs out{.low_res_mask = ctx.workspace.floats({low, low}),
                 .obj_ptr = ctx.workspace.floats({config.hidden_dim()}),
                 .iou_prediction = 1.0F};
  const Workspace::Scope scratch(ctx.workspace);
  const View high_res_mask = ctx.workspace.floats(mask.shape);
  bool is_obj_appearing = false;
  for (std::int64_t i = 0; i < mask.numel(); ++i) {
    is_obj_appearing = is_obj_appearing || mask.data[i] > 0.0F;
    high_res_mask.data[i] = mask.data[i] * kMaskScale + kMaskBias;
  }
  resize_bilinear_antialias(ctx, plane(high_res_mask), plane(out.low_res_mask));

  // The pointer comes from the heads, which see the mask as a prompt.
  const View prompt =
      mask_downsample.forward(ctx, mask.reshape({1, mask.shape[0], mask.shape[1], 1}));
  const SamOutputs inner = forward_sam_heads(
      ctx, {.backbone_features = in.backbone_features,
            .high_res = in.high_res,
            .prompt = {.mask = prompt.reshape({prompt.shape[1], prompt.shape[2]})},
            .multimask_output = in.multimask_output,
            .min_object_score = in.min_object_score});
  copy_(ctx, out.obj_ptr, inner.obj_ptr);
  gate_obj_ptr_(ctx, out.obj_ptr, is_obj_appearing);
  out.object_score_logits = is_obj_appearing ? kMaskScale + kMaskBias : kMaskBias;
  return out;
}

// ---------------------------------------------------------------- memory

View Sam2Heads::scaled_mask(Context& ctx, const NewMemory& in) const {
  const Sam2BaseConfig& base = config.base;
  const std::int64_t fitting = memory_encoder.config.total_stride * base.grid();
  const bool fits = in.mask.shape == Shape{fitting, fitting};
  const std::int64_t size = fits || in.resizes_logits ? fitting : base.image_size;
  const View out = ctx.workspace.floats({size, size});
  const Workspace::Scope scratch(ctx.workspace);
  ConstView mask = in.mask;
  if (!fits && mask.shape[0] != base.image_size) {
    const View large =
        size == base.image_size ? out : ctx.workspace.floats({base.image_size, base.image_size});
    resize_bilinear(ctx, plane(mask), plane(large));
    mask = large;
  }
  if (mask.shape != out.shape) {
    resize_bilinear_antialias(ctx, plane(mask), plane(out));
  } else if (mask.data != out.data) {
    copy_(ctx, out, mask);
  }
  const bool binarize = base.binarize_mask_from_pts_for_mem_enc && in.is_mask_from_pts;
  const float scale = base.sigmoid_scale_for_mem_enc, bias = base.sigmoid_bias_for_mem_enc;
  parallel_for({ctx.num_threads, out.numel(), kMaskGrain, kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float logit = out.data[i];
                   const float value =
                       binarize ? (logit > 0.0F ? 1.0F : 0.0F) : 1.0F / (1.0F + std::exp(-logit));
                   out.data[i] = value * scale + bias;
                 }
               });
  return out;
}

Shape Sam2Heads::memory_shape() const {
  if (spatial_perceiver) return {spatial_perceiver->config.num_tokens(), config.mem_dim()};
  return {config.base.grid(), config.base.grid(), config.mem_dim()};
}

Tensor Sam2Heads::memory_positions() const {
  if (spatial_perceiver) return spatial_perceiver->positions();
  const PositionEmbeddingSine encoding{.num_pos_feats = config.mem_dim()};
  return encoding.dense(config.base.grid(), config.base.grid());
}

View Sam2Heads::encode_new_memory(Context& ctx, const NewMemory& in) const {
  const View out = ctx.workspace.floats(memory_shape());
  const Workspace::Scope scratch(ctx.workspace);
  const View map = memory_encoder.forward(ctx, in.pix_feat, scaled_mask(ctx, in));
  if (config.base.no_obj_embed_spatial && !(in.object_score_logits > 0.0F)) {
    add_(ctx, map, no_obj_embed_spatial);
  }
  if (spatial_perceiver) {
    spatial_perceiver->forward(ctx, map, out);
  } else {
    copy_(ctx, out, map);
  }
  return out;
}

View Sam2Heads::add_no_mem_embed(Context& ctx, ConstView pix_feat) const {
  return add(ctx, pix_feat, no_mem_embed);
}

View Sam2Heads::prepare_memory_conditioned_features(Context& ctx, ConstView shared,
                                                    ConstView maskmem_pos_enc,
                                                    const MemoryChoice& choice,
                                                    const MemoryLookup& lookup) const {
  const std::int64_t g = config.base.grid(), channels = config.hidden_dim();
  const std::int64_t width = config.mem_dim(), tokens = channels / width;
  const View out = ctx.workspace.floats({g, g, channels});
  const Workspace::Scope scratch(ctx.workspace);

  std::vector<MemoryMap> maps;
  for (const MemoryChoice::Map& map : choice.maps) {
    const ConstView row(maskmem_tpos_enc.data() + map.tpos_row * width, {width});
    maps.push_back({lookup(map.frame, map.conditioning).maskmem_features, maskmem_pos_enc, row});
  }
  Memory memory{.maps = maps};

  // A pointer becomes `tokens` tokens, which share its encoding of the time.
  const auto count = static_cast<std::int64_t>(choice.pointers.size());
  if (count > 0) {
    const View pointers = ctx.workspace.floats({count, channels});
    const View distances = ctx.workspace.floats({count});
    for (std::int64_t i = 0; i < count; ++i) {
      const MemoryChoice::Pointer& pointer = choice.pointers[static_cast<std::size_t>(i)];
      copy_(ctx, pointers[i], lookup(pointer.frame, pointer.conditioning).obj_ptr);
      distances.data[i] =
          static_cast<float>(pointer.distance) / static_cast<float>(choice.distance_scale);
    }
    memory.pointers = pointers.reshape({count * tokens, width});
    if (config.base.add_tpos_enc_to_obj_ptrs) {
      const View sines = ctx.workspace.floats({count, channels});
      get_1d_sine_pe(distances, sines);
      const View projected = obj_ptr_tpos_proj.forward(ctx, sines);
      const View repeated = ctx.workspace.floats({count * tokens, width});
      for (std::int64_t i = 0; i < count * tokens; ++i) {
        copy_(ctx, repeated[i], projected[i / tokens]);
      }
      memory.pointer_pos = repeated;
    }
  }
  const View conditioned = memory_attention.finish(ctx, shared, memory);
  copy_(ctx, out, conditioned);
  return out;
}

// ---------------------------------------------------------------- the whole

Sam2::Sam2(const Sam2Config& sizes)
    : config(sizes), image_encoder(sizes.image_encoder), heads(sizes.heads) {}

void Sam2::visit(ParamVisitor& v) {
  v("image_encoder", image_encoder);
  heads.visit(v);
}

void Sam2::fold() {
  image_encoder.neck.fold_projection(0, heads.sam_mask_decoder.conv_s0);
  image_encoder.neck.fold_projection(1, heads.sam_mask_decoder.conv_s1);
}

void Sam2::forward_image(Context& ctx, ConstView image, ImageFeatures& out) const {
  const Workspace::Scope scratch(ctx.workspace);
  heads.adopt_features(ctx, image_encoder.forward(ctx, image), out);
}

void get_1d_sine_pe(ConstView positions, View out) {
  constexpr double kTemperature = 10000.0;
  const std::int64_t half = out.shape.last() / 2;
  for (std::int64_t i = 0; i < positions.numel(); ++i) {
    float* const row = out.data + i * 2 * half;
    for (std::int64_t j = 0; j < half; ++j) {
      const double exponent = static_cast<double>(2 * (j / 2)) / static_cast<double>(half);
      const double angle =
          static_cast<double>(positions.data[i]) / std::pow(kTemperature, exponent);
      row[j] = static_cast<float>(std::sin(angle));
      row[half + j] = static_cast<float>(std::cos(angle));
    }
  }
}

}  // namespace sam_rlx::sam2
