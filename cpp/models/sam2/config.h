#pragma once

#include <cstdint>

#include "models/sam/config.h"

namespace sam_rlx::sam2 {

// ---------------------------------------------------------------- decoder and memory

// Upstream: sam2/modeling/sam/mask_decoder.py, MaskDecoder, with the switches of every released
// model on: high-resolution features, sigmoid of the IoU, object score by an MLP.
struct MaskDecoderConfig {
  sam::TwoWayTransformerConfig transformer{.numbered_mlp = true};
  std::int64_t num_multimask_outputs = 3;
  std::int64_t iou_head_depth = 3;
  std::int64_t iou_head_hidden_dim = 256;
  // A single mask that is not stable gives way to the best of the others.
  bool dynamic_multimask_via_stability = true;
  float dynamic_multimask_stability_delta = 0.05F;
  float dynamic_multimask_stability_thresh = 0.98F;

  std::int64_t num_mask_tokens() const { return num_multimask_outputs + 1; }
};

// Upstream: sam2/modeling/memory_encoder.py, MemoryEncoder, MaskDownSampler, Fuser. The mask is
// `total_stride` times as large as the map.
struct MemoryEncoderConfig {
  std::int64_t in_dim = 256;
  std::int64_t out_dim = 64;
  std::int64_t total_stride = 16;  // a power of 2: one convolution for each factor
  std::int64_t fuser_layers = 2;
};

// Upstream: sam2/modeling/memory_attention.py, MemoryAttention, MemoryAttentionLayer.
struct MemoryAttentionConfig {
  std::int64_t d_model = 256;
  std::int64_t kv_in_dim = 64;  // width of the memory
  std::int64_t dim_feedforward = 2048;
  std::int64_t num_layers = 4;
  std::int64_t feat_size = 64;  // side of the map, and of each map in memory
  double rope_theta = 10000.0;
};

// Which frames of a video are attended to. Upstream: sam2/modeling/sam2_base.py, SAM2Base.
struct MemoryBankConfig {
  std::int64_t num_maskmem = 7;
  std::int64_t max_cond_frames_in_attn = -1;  // no limit
  std::int64_t max_obj_ptrs_in_encoder = 16;
  std::int64_t memory_temporal_stride_for_eval = 1;
  bool only_obj_ptrs_in_the_past_for_eval = true;
  bool use_signed_tpos_enc_to_obj_ptrs = true;  // 2.1; 2.0 takes the absolute distance
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

  std::int64_t grid() const { return image_size / backbone_stride; }
};

// Everything but the image encoder.
struct HeadsConfig {
  Sam2BaseConfig base;
  MemoryBankConfig memory_bank;
  MaskDecoderConfig mask_decoder;
  MemoryEncoderConfig memory_encoder;
  MemoryAttentionConfig memory_attention;

  std::int64_t hidden_dim() const { return mask_decoder.transformer.embedding_dim; }
  std::int64_t mem_dim() const { return memory_encoder.out_dim; }
};

}  // namespace sam_rlx::sam2
