#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"

namespace sam_rlx::sam {

// Upstream: segment_anything/modeling/image_encoder.py, ImageEncoderViT.
struct ImageEncoderConfig {
  std::int64_t img_size = 1024;    // side of the input
  std::int64_t table_size = 1024;  // side that the position tables were trained for
  std::int64_t patch_size = 16;
  std::int64_t in_chans = 3;
  std::int64_t embed_dim = 768;
  std::int64_t depth = 12;
  std::int64_t num_heads = 12;
  std::int64_t mlp_dim = 3072;
  std::int64_t out_chans = 256;
  std::int64_t window_size = 14;
  std::vector<std::int64_t> global_attn_indexes;

  std::int64_t grid() const { return img_size / patch_size; }
  std::int64_t table_grid() const { return table_size / patch_size; }
  std::int64_t head_dim() const { return embed_dim / num_heads; }
  bool is_global(std::int64_t block) const;
};

// Upstream: segment_anything/modeling/prompt_encoder.py, PromptEncoder.
struct PromptEncoderConfig {
  std::int64_t embed_dim = 256;
  std::int64_t image_embedding_size = 64;
  std::int64_t input_image_size = 1024;
  std::int64_t mask_in_chans = 16;
  bool corner_labels = false;  // SAM 2: points with the labels 2 and 3 are the corners of a box

  std::int64_t mask_input_size() const { return 4 * image_embedding_size; }
};

// Upstream: segment_anything/modeling/transformer.py, TwoWayTransformer.
struct TwoWayTransformerConfig {
  std::int64_t depth = 2;
  std::int64_t embedding_dim = 256;
  std::int64_t num_heads = 8;
  std::int64_t mlp_dim = 2048;
  std::int64_t attention_downsample_rate = 2;
  bool numbered_mlp = false;  // SAM 2's names of the MLP: layers.0, layers.1
};

// Upstream: segment_anything/modeling/mask_decoder.py, MaskDecoder.
struct MaskDecoderConfig {
  TwoWayTransformerConfig transformer;
  std::int64_t num_multimask_outputs = 3;
  std::int64_t iou_head_depth = 3;
  std::int64_t iou_head_hidden_dim = 256;

  std::int64_t num_mask_tokens() const { return num_multimask_outputs + 1; }
};

struct SamConfig {
  std::string variant;
  ImageEncoderConfig image_encoder;
  PromptEncoderConfig prompt_encoder;
  MaskDecoderConfig mask_decoder;
  std::array<float, 3> pixel_mean{123.675F, 116.28F, 103.53F};  // of values 0 to 255
  std::array<float, 3> pixel_std{58.395F, 57.12F, 57.375F};
  float mask_threshold = 0.0F;

  // Another input side: tables are resized when the model is loaded.
  void set_img_size(std::int64_t size);

  // Layers that another precision than float32 holds in its format.
  static LayerSet reduced_layers();
  // Layers, as patterns of lies_below, whose matrices stay in the blocks of a GGUF file.
  static std::span<const std::string_view> packed_layers();
};

// Released sizes: "vit_b", "vit_l", "vit_h". Upstream: segment_anything/build_sam.py. Raises
// UnsupportedError for another name.
SamConfig released_config(const std::string& variant);

}  // namespace sam_rlx::sam
