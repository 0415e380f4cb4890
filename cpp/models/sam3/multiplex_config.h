#pragma once

#include <cstdint>

#include "layers/fields.h"
#include "models/sam/config.h"

// SAM 3.1 follows objects of a video in buckets of `multiplex_count`, which share a memory and one
// run of the network. The names in a checkpoint begin with "tracker.model.", see
// docs/checkpoints.md.

namespace sam_rlx::sam3 {

// Of a bucket: tokens of object score, of IoU and of several masks for each slot. Upstream:
// sam3/model/multiplex_mask_decoder.py, MultiplexMaskDecoder, with multimask_outputs_only.
struct MultiplexMaskDecoderConfig {
  sam::TwoWayTransformerConfig transformer;
  std::int64_t num_multimask_outputs = 3;  // of a slot; there is no single mask
  std::int64_t iou_head_depth = 3;
  std::int64_t iou_head_hidden_dim = 256;

  template <class V>
  void fields(V& v) {
    v("transformer", transformer);
    v("num_multimask_outputs", num_multimask_outputs, 1, 64);
    v("iou_head_depth", iou_head_depth, 1, 64);
    v("iou_head_hidden_dim", iou_head_hidden_dim, 1, kMaxConfigSize);
  }
};

// A memory of a bucket is a map of the width of the tracker. Upstream: sam3/model/memory.py,
// SimpleMaskEncoder, SimpleMaskDownSampler, SimpleFuser.
struct MultiplexMemoryEncoderConfig {
  std::int64_t starting_out_chan = 4;  // the first convolution has 4 times as many channels
  std::int64_t total_stride = 16;      // a power of 2: one convolution for each factor
  std::int64_t fuser_layers = 2;

  template <class V>
  void fields(V& v) {
    v("starting_out_chan", starting_out_chan, 1, 1024);
    v("total_stride", total_stride, 1, kMaxConfigSize);
    v("fuser_layers", fuser_layers, 0, 64);
  }
};

// Upstream: sam3/model/decoder.py, TransformerEncoderDecoupledCrossAttention,
// DecoupledTransformerDecoderLayerv2.
struct MultiplexAttentionConfig {
  std::int64_t num_heads = 8;
  std::int64_t dim_feedforward = 2048;
  std::int64_t num_layers = 4;
  std::int64_t feat_size = 72;  // side of the map, and of each map in memory
  double rope_theta = 10000.0;

  template <class V>
  void fields(V& v) {
    v("num_heads", num_heads, 1, kMaxConfigSize);
    v("dim_feedforward", dim_feedforward, 1, kMaxConfigSize);
    v("num_layers", num_layers, 1, 64);
    v("feat_size", feat_size, 1, kMaxConfigSize);
    v("rope_theta", rope_theta, 1, 1e9, kSetting);
  }
};

// What follows objects. Upstream: sam3/model/video_tracking_multiplex.py, VideoTrackingMultiplex,
// with the values of sam3/model_builder.py, build_sam3_multiplex_video_model.
struct MultiplexConfig {
  std::int64_t multiplex_count = 16;  // slots of a bucket
  std::int64_t num_maskmem = 7;
  std::int64_t max_cond_frames_in_attn = 4;
  std::int64_t max_obj_ptrs_in_encoder = 16;
  float sigmoid_scale_for_mem_enc = 2.0F;
  float sigmoid_bias_for_mem_enc = -1.0F;
  MultiplexMaskDecoderConfig mask_decoder;
  MultiplexMemoryEncoderConfig memory_encoder;
  MultiplexAttentionConfig memory_attention;

  template <class V>
  void fields(V& v) {
    v("multiplex_count", multiplex_count, 1, 1024);
    v("num_maskmem", num_maskmem, 2, kMaxConfigSize);
    v("max_cond_frames_in_attn", max_cond_frames_in_attn, -1, kMaxConfigSize, kSetting);
    v("max_obj_ptrs_in_encoder", max_obj_ptrs_in_encoder, 1, kMaxConfigSize, kSetting);
    v("sigmoid_scale_for_mem_enc", sigmoid_scale_for_mem_enc, -1e6, 1e6, kSetting);
    v("sigmoid_bias_for_mem_enc", sigmoid_bias_for_mem_enc, -1e6, 1e6, kSetting);
    v("mask_decoder", mask_decoder);
    v("memory_encoder", memory_encoder);
    v("memory_attention", memory_attention);
  }

  // The width of all of it: that of the image's maps, of memories and of pointers.
  std::int64_t d_model() const { return mask_decoder.transformer.embedding_dim; }
  // A mask and a flag for each slot.
  std::int64_t mask_channels() const { return 2 * multiplex_count; }
  std::int64_t num_mask_tokens() const {
    return multiplex_count * mask_decoder.num_multimask_outputs;
  }
};

}  // namespace sam_rlx::sam3
