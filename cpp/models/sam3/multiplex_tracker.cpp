#include "models/sam3/multiplex_tracker.h"

#include <algorithm>

#include "core/parallel.h"
#include "layers/position_encoding.h"
#include "ops/elementwise.h"
#include "ops/resize_antialias.h"

namespace sam_rlx::sam3 {
namespace {

constexpr std::int64_t kPixelGrain = 1 << 14;

// Upstream: sam3/model/memory.py, SimpleMaskEncoder, whose result is as wide as its input.
struct MaskMemBackbone {
  MultiplexTracker& tracker;

  void visit(ParamVisitor& v) {
    v("mask_downsampler", tracker.mask_downsampler);
    v("pix_feat_proj", tracker.pix_feat_proj);
    v("fuser", tracker.fuser);
  }
};

// Upstream: sam3/model/model_misc.py, TransformerWrapper, which has an encoder only.
struct EncoderWrapper {
  MultiplexAttention& encoder;

  void visit(ParamVisitor& v) { v("encoder", encoder); }
};

// Rows (..., C) whose channel i was channel order[i].
Tensor with_channels(const std::vector<std::int64_t>& order, ConstView rows) {
  const auto channels = static_cast<std::int64_t>(order.size());
  Tensor out(rows.shape);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const std::int64_t channel = order[static_cast<std::size_t>(i % channels)];
    out.data()[i] = rows.data[i - i % channels + channel];
  }
  return out;
}

ConstView plane_of(ConstView map) { return map.reshape({1, map.shape[0], map.shape[1]}); }

}  // namespace

MultiplexTracker::MultiplexTracker(const MultiplexConfig& sizes)
    : config(sizes),
      memory_bank{.num_maskmem = sizes.num_maskmem,
                  .max_cond_frames_in_attn = sizes.max_cond_frames_in_attn,
                  .max_obj_ptrs_in_encoder = sizes.max_obj_ptrs_in_encoder,
                  .only_obj_ptrs_in_the_past_for_eval = false,
                  .use_signed_tpos_enc_to_obj_ptrs = false,
                  .use_maskmem_tpos_v2 = true},
      obj_ptr_tpos_proj(sizes.d_model(), sizes.d_model()),
      obj_ptr_proj(sizes.d_model(), sizes.d_model(), sizes.d_model(), 3),
      memory_attention(sizes.memory_attention, sizes.d_model()),
      mask_downsampler(sizes.d_model(), sizes.memory_encoder.total_stride, sizes.mask_channels(),
                       sizes.memory_encoder.starting_out_chan),
      pix_feat_proj(sizes.d_model(), sizes.d_model(), kConv1x1),
      sam_mask_decoder(sizes.mask_decoder, sizes.multiplex_count) {
  image_pe_layer.num_pos_feats = config.d_model() / 2;
  for (std::int64_t i = 0; i < config.memory_encoder.fuser_layers; ++i) {
    fuser.layers.emplace_back(config.d_model());
  }
}

void MultiplexTracker::visit(ParamVisitor& v) {
  const std::int64_t channels = config.d_model(), slots = config.multiplex_count;
  MaskMemBackbone maskmem_backbone{*this};
  EncoderWrapper transformer{memory_attention};
  v("maskmem_tpos_enc", maskmem_tpos_enc, {config.num_maskmem, 1, 1, channels});
  v("no_obj_embed_spatial", no_obj_embed_spatial, {slots, channels});
  v("output_valid_embed", output_valid_embed, {slots, channels});
  v("output_invalid_embed", output_invalid_embed, {slots, channels});
  v("obj_ptr_tpos_proj", obj_ptr_tpos_proj);
  v("obj_ptr_proj", obj_ptr_proj);
  v("image_pe_layer", image_pe_layer);
  v("transformer", transformer);
  v("maskmem_backbone", maskmem_backbone);
  v("sam_mask_decoder", sam_mask_decoder);
}

// All that is added to keys has its channels in their order.
void MultiplexTracker::fold() {
  const std::int64_t grid = config.memory_attention.feat_size, channels = config.d_model();
  const std::vector<std::int64_t> order = memory_attention.channel_order();
  const PositionEmbeddingSine encoding{.num_pos_feats = channels};
  memory_pos = with_channels(order, encoding.dense(grid, grid));
  maskmem_tpos_enc = with_channels(order, maskmem_tpos_enc);
  obj_ptr_tpos_proj.reorder_rows(order);
  image_pe = image_pe_layer.dense(grid, grid);
}

void MultiplexTracker::fold_projections(Sam3DualViTDetNeck& neck) {
  neck.propagation_convs[0].conv_3x3.absorb(sam_mask_decoder.conv_s0);
  neck.propagation_convs[1].conv_3x3.absorb(sam_mask_decoder.conv_s1);
}

void MultiplexTracker::forward_image(Context& ctx, const Sam3DualViTDetNeck& neck, ConstView map,
                                     sam2::ImageFeatures& out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const std::vector<View> levels = neck.levels(ctx, map, neck.propagation_convs);
  const ConstView coarsest = levels[2][0];
  if (out.embedding.shape() != coarsest.shape) out.embedding = Tensor(coarsest.shape);
  copy_(ctx, out.embedding, coarsest);
  sam2::MaskDecoder::adopt_high_res(ctx, levels[0][0], levels[1][0], out.high_res);
}

// ---------------------------------------------------------------- memory

Shape MultiplexTracker::memory_shape() const {
  const std::int64_t grid = config.memory_attention.feat_size;
  return {grid, grid, config.d_model()};
}

View MultiplexTracker::prepare_memory_conditioned_features(Context& ctx, ConstView shared,
                                                           ConstView map,
                                                           const sam2::MemoryChoice& choice,
                                                           const BucketLookup& lookup) const {
  const View out = ctx.workspace.floats(map.shape);
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t channels = config.d_model(), slots = config.multiplex_count;
  const Shape positions{map.numel() / channels, channels};

  std::vector<BucketMap> maps;
  for (const sam2::MemoryChoice::Map& chosen : choice.maps) {
    const BucketOutput output = lookup(chosen.frame, chosen.conditioning);
    maps.push_back({.image = output.image.reshape(positions),
                    .features = output.maskmem_features.reshape(positions),
                    .tpos = {maskmem_tpos_enc.data() + chosen.tpos_row * channels, {channels}}});
  }
  BucketMemory memory{.maps = maps, .pos = memory_pos.view().reshape(positions)};

  // All pointers of a frame share the encoding of its time.
  const auto frames = static_cast<std::int64_t>(choice.pointers.size());
  if (frames > 0) {
    const View pointers = ctx.workspace.floats({frames, slots, channels});
    const View distances = ctx.workspace.floats({frames});
    for (std::int64_t i = 0; i < frames; ++i) {
      const sam2::MemoryChoice::Pointer& pointer = choice.pointers[static_cast<std::size_t>(i)];
      copy_(ctx, pointers[i], lookup(pointer.frame, pointer.conditioning).obj_ptrs);
      distances.data[i] =
          static_cast<float>(pointer.distance) / static_cast<float>(choice.distance_scale);
    }
    const View sines = ctx.workspace.floats({frames, channels});
    sam2::get_1d_sine_pe(distances, sines);
    const View projected = obj_ptr_tpos_proj.forward(ctx, sines);
    const View repeated = ctx.workspace.floats({frames * slots, channels});
    for (std::int64_t i = 0; i < frames * slots; ++i) {
      copy_(ctx, repeated[i], projected[i / slots]);
    }
    memory.pointers = pointers.reshape(repeated.shape);
    memory.pointer_pos = repeated;
  }
  copy_(ctx, out, memory_attention.finish(ctx, shared, map.reshape(positions), memory));
  return out;
}

View MultiplexTracker::encode_new_memory(Context& ctx, const sam2::Sam2Heads& heads,
                                         ConstView pix_feat,
                                         std::span<const SlotMask> masks) const {
  const std::int64_t grid = pix_feat.shape[0], channels = config.d_model();
  const View out = ctx.workspace.floats({1, grid, grid, channels});
  const Workspace::Scope scratch(ctx.workspace);

  // A channel with the mask of each slot, and one with its flag.
  const std::int64_t slots = config.multiplex_count, width = config.mask_channels();
  const std::int64_t side = config.memory_encoder.total_stride * grid;
  const View stack = ctx.workspace.floats({1, side, side, width});
  std::fill_n(stack.data, stack.numel(), 0.0F);
  std::vector<bool> is_appearing(static_cast<std::size_t>(slots), false);
  for (const SlotMask& one : masks) {
    const Workspace::Scope inner(ctx.workspace);
    const View scaled = heads.scaled_mask(
        ctx, {.pix_feat = pix_feat, .mask = one.mask, .is_mask_from_pts = one.is_conditioning});
    const View fitting = ctx.workspace.floats({1, side, side});
    resize_bilinear_antialias(ctx, plane_of(scaled), fitting);
    const float flag = one.is_conditioning ? 1.0F : 0.0F;
    parallel_for({ctx.num_threads, side * side, kPixelGrain, kNumberWork},
                 [&](std::int64_t begin, std::int64_t end, int) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     stack.data[i * width + one.slot] = fitting.data[i];
                     stack.data[i * width + slots + one.slot] = flag;
                   }
                 });
    is_appearing[static_cast<std::size_t>(one.slot)] = one.object_score_logits > 0.0F;
  }

  const View downsampled = mask_downsampler.forward(ctx, stack);
  pix_feat_proj.forward(ctx, pix_feat.reshape(out.shape), downsampled, out);
  fuser.forward_(ctx, out);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    if (!is_appearing[static_cast<std::size_t>(slot)]) {
      add_(ctx, out, no_obj_embed_spatial.view()[slot]);
    }
  }
  return out[0];
}

// ---------------------------------------------------------------- masks

MultiplexTracker::Outputs MultiplexTracker::forward_sam_heads(Context& ctx,
                                                              const sam2::Sam2Heads& heads,
                                                              const Inputs& in) const {
  const std::int64_t channels = config.d_model(), low = 4 * in.backbone_features.shape[0];
  const auto count = static_cast<std::int64_t>(in.slots.size());
  Outputs out{.low_res_masks = ctx.workspace.floats({count, low, low}),
              .obj_ptrs = ctx.workspace.floats({count, channels}),
              .iou_predictions = {},
              .object_score_logits = {}};
  const Workspace::Scope scratch(ctx.workspace);

  // The decoder is told which slots hold an object.
  const View slot_embed = ctx.workspace.floats(output_invalid_embed.shape());
  copy_(ctx, slot_embed, output_invalid_embed);
  for (const std::int64_t slot : in.slots) {
    copy_(ctx, slot_embed[slot], output_valid_embed.view()[slot]);
  }
  const MultiplexMaskDecoder::Decoded decoded = sam_mask_decoder.decode(
      ctx, {.map = in.backbone_features, .image_pe = image_pe.view()[0], .slot_embed = slot_embed});

  std::vector<MultiplexMaskDecoder::Choice> choices;
  const View tokens = ctx.workspace.floats({count, channels});
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t slot = in.slots[static_cast<std::size_t>(k)];
    choices.push_back(sam_mask_decoder.best(decoded, slot));
    copy_(ctx, tokens[k], sam_mask_decoder.mask_token(decoded, choices.back()));
    out.iou_predictions.push_back(decoded.iou_predictions[slot].data[choices.back().mask]);
    out.object_score_logits.push_back(decoded.object_score_logits.data[slot]);
  }
  sam_mask_decoder.predict_masks(ctx, decoded, in.high_res, choices, out.low_res_masks);
  copy_(ctx, out.obj_ptrs, obj_ptr_proj.forward(ctx, tokens));
  for (std::int64_t k = 0; k < count; ++k) {
    const bool is_appearing = out.object_score_logits[static_cast<std::size_t>(k)] > 0.0F;
    heads.gate_obj_ptr_(ctx, out.obj_ptrs[k], is_appearing);
    if (is_appearing) continue;
    const View mask = out.low_res_masks[k];
    std::fill_n(mask.data, mask.numel(), sam2::kNoObjScore);
  }
  return out;
}

}  // namespace sam_rlx::sam3
