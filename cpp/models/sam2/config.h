#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/fields.h"
#include "layers/layer.h"
#include "layers/release.h"
#include "layers/rules.h"
#include "models/sam/config.h"
#include "models/trunks/config.h"

namespace sam_rlx::sam2 {

// ---------------------------------------------------------------- image encoder

// One block of the trunk. Upstream: sam2/modeling/backbones/hieradet.py, MultiScaleBlock.
struct MultiScaleBlockConfig {
  std::int64_t dim = 0;
  std::int64_t dim_out = 0;
  std::int64_t num_heads = 1;
  std::int64_t mlp_dim = 0;
  std::int64_t window_size = 0;  // 0: global
  bool q_pool = false;           // queries and shortcut are pooled 2x2
  double layer_norm_eps = 1e-6;
};

// Upstream: sam2/modeling/backbones/hieradet.py, Hiera. Width and number of heads double from
// stage to stage, as in every release.
struct HieraConfig {
  std::int64_t image_size = 1024;  // side of the input
  std::int64_t in_chans = 3;
  std::int64_t embed_dim = 96;
  std::int64_t num_heads = 1;
  std::int64_t q_pool = 3;  // of the stages after the first, so many begin with pooling
  double mlp_ratio = 4.0;
  std::vector<std::int64_t> stages{1, 2, 7, 2};
  std::vector<std::int64_t> window_spec{8, 4, 14, 7};
  std::vector<std::int64_t> global_att_blocks{5, 7, 9};
  std::array<std::int64_t, 2> window_pos_embed_bkg_spatial_size{7, 7};
  double layer_norm_eps = 1e-6;

  template <class V>
  void fields(V& v) {
    v("image_size", image_size, 1, 4096);
    v("in_chans", in_chans, 1, kMaxConfigSize, kHasDefault);
    v("embed_dim", embed_dim, 1, kMaxConfigSize);
    v("num_heads", num_heads, 1, kMaxConfigSize);
    v("stages", stages, 1, 1024);
    v("q_pool", q_pool, 0, 7, kHasDefault);
    v("mlp_ratio", mlp_ratio, 0, 64, kHasDefault);
    v("window_spec", window_spec, 1, 1024);
    v("global_att_blocks", global_att_blocks, 0, kMaxConfigSize);
    v("window_pos_embed_bkg_spatial_size", window_pos_embed_bkg_spatial_size, 1, kMaxConfigSize);
    v.told("patch_stride", kPatchStride);
    v.told("stage_heads", [&] { return stage_heads(); });
  }

  static constexpr std::int64_t kPatchStride = 4;

  std::int64_t num_stages() const { return static_cast<std::int64_t>(stages.size()); }
  std::int64_t grid() const { return image_size / kPatchStride; }  // of the first stage
  std::int64_t stage_grid(std::int64_t stage) const;
  std::int64_t stage_width(std::int64_t stage) const { return embed_dim << stage; }
  std::vector<std::int64_t> stage_heads() const;
  // Sides that the pooling and the window table ask for: multiples of this.
  std::int64_t image_size_step() const;
  std::vector<MultiScaleBlockConfig> blocks() const;

  bool operator==(const HieraConfig&) const = default;
};

// Upstream: sam2/modeling/backbones/image_encoder.py, FpnNeck, with 1x1 convolutions, nearest
// upsampling and sums, as in every release.
struct FpnNeckConfig {
  std::int64_t d_model = 256;
  std::vector<std::int64_t> backbone_channel_list{768, 384, 192, 96};  // coarsest first
  std::vector<std::int64_t> fpn_top_down_levels{2, 3};                 // 0 is the finest

  template <class V>
  void fields(V& v) {
    v("d_model", d_model, 1, kMaxConfigSize);
    v("backbone_channel_list", backbone_channel_list, 1, kMaxConfigSize, kHasDefault);
    v("fpn_top_down_levels", fpn_top_down_levels, 0, kMaxConfigSize);
  }

  bool top_down(std::int64_t level) const;

  bool operator==(const FpnNeckConfig&) const = default;
};

// Upstream: sam2/modeling/backbones/image_encoder.py, ImageEncoder.
struct ImageEncoderConfig {
  HieraConfig trunk;
  std::optional<trunks::RepVitConfig> rep_vit = {};  // instead
  FpnNeckConfig neck;
  std::int64_t scalp = 1;  // coarsest levels that are computed and left out

  template <class V>
  void fields(V& v) {
    v("rep_vit", rep_vit);
    if (!rep_vit) v("trunk", trunk);
    v("neck", neck);
    v("scalp", scalp, 0, 7, kHasDefault);
  }

  // Of the trunk that there is.
  std::int64_t image_size() const { return rep_vit ? rep_vit->image_size : trunk.image_size; }
  std::int64_t num_stages() const { return rep_vit ? rep_vit->num_stages() : trunk.num_stages(); }
  std::int64_t stage_grid(std::int64_t stage) const {
    return rep_vit ? rep_vit->stage_grid(stage) : trunk.stage_grid(stage);
  }
  std::int64_t stage_width(std::int64_t stage) const {
    return rep_vit ? rep_vit->stage_width(stage) : trunk.stage_width(stage);
  }
  std::int64_t image_size_step() const {
    return rep_vit ? rep_vit->image_size_step() : trunk.image_size_step();
  }
  void set_image_size(std::int64_t size) {
    (rep_vit ? rep_vit->image_size : trunk.image_size) = size;
  }

  std::int64_t num_levels() const { return num_stages() - scalp; }
  // The neck's channels, coarsest first: those of the trunk.
  std::vector<std::int64_t> channel_list() const;
};

// What tells released variants from each other.
struct ReleasedSizes {
  ImageEncoderConfig image_encoder;
  bool hq = false;
};
// SAM 2.0 and 2.1 share the sizes. Upstream: sam2/configs, and those of EdgeTAM and HQ-SAM 2.
std::span<const SizedRelease<ReleasedSizes>> releases();

// ---------------------------------------------------------------- decoder and memory

// Upstream: sam2/modeling/sam/mask_decoder.py, MaskDecoder, with the switches of every released
// model on: high-resolution features, sigmoid of the IoU, object score.
struct MaskDecoderConfig {
  sam::TwoWayTransformerConfig transformer{.numbered_mlp = true};
  std::int64_t num_multimask_outputs = 3;
  std::int64_t iou_head_depth = 3;
  std::int64_t iou_head_hidden_dim = 256;
  // A single mask that is not stable gives way to the best of the others.
  bool dynamic_multimask_via_stability = true;
  float dynamic_multimask_stability_delta = 0.05F;
  float dynamic_multimask_stability_thresh = 0.98F;
  bool pred_obj_scores_mlp = true;  // else by one linear layer
  bool hq = false;                  // HQ-SAM 2's token
  // Else the predicted IoU is what the head gives, as in SAM 3.1. No file says it.
  bool iou_prediction_use_sigmoid = true;

  template <class V>
  void fields(V& v) {
    v("transformer", transformer);
    v("num_multimask_outputs", num_multimask_outputs, 1, 64);
    v("iou_head_depth", iou_head_depth, 1, 64);
    v("iou_head_hidden_dim", iou_head_hidden_dim, 1, kMaxConfigSize);
    v("dynamic_multimask_via_stability", dynamic_multimask_via_stability, kSetting);
    v("dynamic_multimask_stability_delta", dynamic_multimask_stability_delta, 0, 1e6, kSetting);
    v("dynamic_multimask_stability_thresh", dynamic_multimask_stability_thresh, 0, 1, kSetting);
    v("pred_obj_scores_mlp", pred_obj_scores_mlp);
    v("hq", hq, kHasDefault);
  }

  std::int64_t num_mask_tokens() const { return num_multimask_outputs + 1; }
};

// Upstream: sam2/modeling/memory_encoder.py, MemoryEncoder, MaskDownSampler, Fuser. The mask is
// `total_stride` times as large as the map.
struct MemoryEncoderConfig {
  std::int64_t in_dim = 256;
  std::int64_t out_dim = 64;
  std::int64_t total_stride = 16;  // a power of 2: one convolution for each factor
  std::int64_t fuser_layers = 2;

  template <class V>
  void fields(V& v) {
    v("in_dim", in_dim, 1, kMaxConfigSize);
    v("out_dim", out_dim, 1, kMaxConfigSize);
    v("total_stride", total_stride, 1, kMaxConfigSize);
    v("fuser_layers", fuser_layers, 0, 64);
  }
};

// Upstream: sam2/modeling/memory_attention.py, MemoryAttention, MemoryAttentionLayer.
struct MemoryAttentionConfig {
  std::int64_t d_model = 256;
  std::int64_t kv_in_dim = 64;  // width of the memory
  std::int64_t dim_feedforward = 2048;
  std::int64_t num_layers = 4;
  std::int64_t feat_size = 64;  // side of the map, and of each map in memory
  // Side of each map in memory where that is another one: EdgeTAM's, see SpatialPerceiverConfig.
  // What stands in a memory before its map has no position. 0: feat_size.
  std::int64_t key_size = 0;
  double rope_theta = 10000.0;

  template <class V>
  void fields(V& v) {
    v("d_model", d_model, 1, kMaxConfigSize);
    v("kv_in_dim", kv_in_dim, 1, kMaxConfigSize);
    v("dim_feedforward", dim_feedforward, 1, kMaxConfigSize);
    v("num_layers", num_layers, 1, 64);
    v("feat_size", feat_size, 1, kMaxConfigSize);
    v("key_size", key_size, 0, kMaxConfigSize, kHasDefault);
    v("rope_theta", rope_theta, 1, 1e9, kSetting);
  }

  std::int64_t key_side() const { return key_size > 0 ? key_size : feat_size; }
};

// Upstream: sam2/modeling/perceiver.py of EdgeTAM, PerceiverResampler, with one head, encodings at
// keys and values, and self-attention.
struct SpatialPerceiverConfig {
  std::int64_t dim = 64;  // of the memory
  std::int64_t depth = 2;
  std::int64_t num_latents = 256;     // that read the whole map
  std::int64_t num_latents_2d = 256;  // that read a window each: a square number
  std::int64_t ff_mult = 4;

  template <class V>
  void fields(V& v) {
    v("dim", dim, 1, kMaxConfigSize);
    v("depth", depth, 1, 64);
    v("num_latents", num_latents, 1, 4096);
    v("num_latents_2d", num_latents_2d, 1, 4096);
    v("ff_mult", ff_mult, 1, 64);
  }

  std::int64_t num_tokens() const { return num_latents + num_latents_2d; }
  std::int64_t windows() const;  // on a side of the map
};

// Which frames of a video are attended to. Upstream: sam2/modeling/sam2_base.py, SAM2Base.
struct MemoryBankConfig {
  std::int64_t num_maskmem = 7;
  std::int64_t max_cond_frames_in_attn = -1;  // no limit
  std::int64_t max_obj_ptrs_in_encoder = 16;
  std::int64_t memory_temporal_stride_for_eval = 1;
  bool only_obj_ptrs_in_the_past_for_eval = true;
  bool use_signed_tpos_enc_to_obj_ptrs = true;  // 2.1; 2.0 takes the absolute distance
  // Frames with prompts have the encoding of their time too, as in SAM 3.1. No file says it.
  bool use_maskmem_tpos_v2 = false;

  template <class V>
  void fields(V& v) {
    v("num_maskmem", num_maskmem, 2, kMaxConfigSize);
    v("max_cond_frames_in_attn", max_cond_frames_in_attn, -1, kMaxConfigSize, kSetting);
    v("max_obj_ptrs_in_encoder", max_obj_ptrs_in_encoder, 1, kMaxConfigSize, kSetting);
    v("memory_temporal_stride_for_eval", memory_temporal_stride_for_eval, 1, kMaxConfigSize,
      kSetting);
    v("only_obj_ptrs_in_the_past_for_eval", only_obj_ptrs_in_the_past_for_eval, kSetting);
    v("use_signed_tpos_enc_to_obj_ptrs", use_signed_tpos_enc_to_obj_ptrs, kSetting);
  }
};

// Switches and sizes of the model itself. Upstream: SAM2Base.
struct Sam2BaseConfig {
  std::int64_t image_size = 1024;
  std::int64_t backbone_stride = 16;
  std::int64_t mask_in_chans = 16;
  float sigmoid_scale_for_mem_enc = 20.0F;
  float sigmoid_bias_for_mem_enc = -10.0F;
  bool binarize_mask_from_pts_for_mem_enc = true;
  bool no_obj_embed_spatial = true;      // 2.1
  bool add_tpos_enc_to_obj_ptrs = true;  // 2.1, with a projection; 2.0: pointers have no position
  // Several masks, of which the best is taken, for so many points of a prompt.
  bool multimask_output_for_tracking = true;
  std::int64_t multimask_min_pt_num = 0;
  std::int64_t multimask_max_pt_num = 1;
  bool use_mlp_for_obj_ptr_proj = true;  // else one linear layer
  // The pointer of an object that is not there becomes that of a linear layer, as in SAM 3.1. No
  // file says it.
  bool use_linear_no_obj_ptr = false;

  template <class V>
  void fields(V& v) {
    v("image_size", image_size, 1, 4096);
    v("backbone_stride", backbone_stride, 1, kMaxConfigSize);
    v("mask_in_chans", mask_in_chans, 1, kMaxConfigSize);
    v("sigmoid_scale_for_mem_enc", sigmoid_scale_for_mem_enc, -1e6, 1e6, kSetting);
    v("sigmoid_bias_for_mem_enc", sigmoid_bias_for_mem_enc, -1e6, 1e6, kSetting);
    v("binarize_mask_from_pts_for_mem_enc", binarize_mask_from_pts_for_mem_enc, kSetting);
    v("no_obj_embed_spatial", no_obj_embed_spatial);
    v("add_tpos_enc_to_obj_ptrs", add_tpos_enc_to_obj_ptrs);
    v("multimask_output_for_tracking", multimask_output_for_tracking, kSetting);
    v("multimask_min_pt_num", multimask_min_pt_num, 0, kMaxConfigSize, kSetting);
    v("multimask_max_pt_num", multimask_max_pt_num, 0, kMaxConfigSize, kSetting);
    v("use_mlp_for_obj_ptr_proj", use_mlp_for_obj_ptr_proj);
  }

  std::int64_t grid() const { return image_size / backbone_stride; }
};

// Everything but the image encoder.
struct HeadsConfig {
  bool memory = true;  // follows objects through a video; transformers' image models cannot
  Sam2BaseConfig base;
  MemoryBankConfig memory_bank;
  MaskDecoderConfig mask_decoder;
  MemoryEncoderConfig memory_encoder;
  MemoryAttentionConfig memory_attention;
  std::optional<SpatialPerceiverConfig> spatial_perceiver = {};  // EdgeTAM: makes memories shorter
  // Of the prompts, see sam::PromptEncoderConfig.
  bool padding_label = false;
  double prompt_layer_norm_eps = 1e-6;

  template <class V>
  void fields(V& v) {
    v("memory", memory);
    v("base", base);
    v("memory_bank", memory_bank);
    v("mask_decoder", mask_decoder);
    v("memory_encoder", memory_encoder);
    v("memory_attention", memory_attention);
    v("spatial_perceiver", spatial_perceiver);
  }

  void set_rules(const Rules& rules);

  std::int64_t hidden_dim() const { return mask_decoder.transformer.embedding_dim; }
  std::int64_t mem_dim() const { return memory_encoder.out_dim; }
};

// ---------------------------------------------------------------- the whole

struct Sam2Config {
  std::string variant;  // hiera_t, ..., edgetam or custom
  std::string version;  // "2.0" or "2.1"; EdgeTAM: "1.0"
  ImageEncoderConfig image_encoder;
  HeadsConfig heads;
  std::array<float, 3> pixel_mean{0.485F, 0.456F, 0.406F};  // of values 0 to 1
  std::array<float, 3> pixel_std{0.229F, 0.224F, 0.225F};
  float mask_threshold = 0.0F;

  template <class V>
  void fields(V& v) {
    v("image_encoder", image_encoder);
    v("heads", heads, kHasDefault);
    v("pixel_mean", pixel_mean, -1e6, 1e6, kHasDefault);
    v("pixel_std", pixel_std, 1e-6, 1e6, kHasDefault);
  }

  // Another input side: position tables are made for it when the model is loaded.
  void set_image_size(std::int64_t size);
  void set_rules(const Rules& rules);

  // Patterns of names that checkpoints have and the network has not.
  std::vector<std::string_view> ignored_keys() const;

  // Layers that another precision than float32 holds in its format.
  static LayerSet reduced_layers(WeightFormat format);
  // Layers that are bfloat16 in every reduced precision, unless they are reduced_layers, on
  // processors whose products of 16 bits are faster than those of float32. On others they gain
  // nothing.
  static LayerSet bfloat16_layers();
  // Layers, as patterns of lies_below, whose matrices stay in the blocks of a GGUF file.
  static std::span<const std::string_view> packed_layers();
};

}  // namespace sam_rlx::sam2
