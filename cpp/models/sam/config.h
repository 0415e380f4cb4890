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
#include "models/trunks/config.h"

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
  std::vector<std::int64_t> global_attn_indexes = {};
  // Instead of widths, heads, windows and tables of one size. patch_size is then what its strides
  // multiply to.
  std::optional<trunks::TinyViTConfig> tiny_vit = {};
  double layer_norm_eps = 1e-6;  // of the blocks

  template <class V>
  void fields(V& v) {
    v("img_size", img_size, 1, 4096);
    v("patch_size", patch_size, 1, kMaxConfigSize);
    v("in_chans", in_chans, 1, kMaxConfigSize, kHasDefault);
    v("out_chans", out_chans, 1, kMaxConfigSize);
    v("tiny_vit", tiny_vit);
    if (tiny_vit) return;
    v("table_size", table_size, 1, kMaxConfigSize, kHasDefault | kNotInFolder);
    v("embed_dim", embed_dim, 1, kMaxConfigSize);
    v("depth", depth, 1, 1024);
    v("num_heads", num_heads, 1, kMaxConfigSize);
    v("mlp_dim", mlp_dim, 1, kMaxConfigSize, kHasDefault);  // files have upstream's mlp_ratio
    v("window_size", window_size, 1, kMaxConfigSize);
    v("global_attn_indexes", global_attn_indexes, 0, kMaxConfigSize);
    v.told("layer_norm_eps", layer_norm_eps);
  }

  std::int64_t grid() const { return img_size / patch_size; }
  std::int64_t table_grid() const { return table_size / patch_size; }
  std::int64_t head_dim() const { return embed_dim / num_heads; }
  bool is_global(std::int64_t block) const;
  // Of the map (g, g, early_dim) that SAM-HQ takes from inside the trunk: behind the first block
  // with global attention, or behind the second layer of TinyViT. 0: there is no such map.
  std::int64_t early_dim() const;
};

// Upstream: segment_anything/modeling/prompt_encoder.py, PromptEncoder.
struct PromptEncoderConfig {
  std::int64_t embed_dim = 256;
  std::int64_t image_embedding_size = 64;
  std::int64_t input_image_size = 1024;
  std::int64_t mask_in_chans = 16;
  bool corner_labels = false;  // SAM 2: points with the labels 2 and 3 are the corners of a box
  bool padding_label = false;  // points with the label -10 are tokens of zeros
  double layer_norm_eps = 1e-6;

  template <class V>
  void fields(V& v) {
    v("embed_dim", embed_dim, 1, kMaxConfigSize);
    v("image_embedding_size", image_embedding_size, 1, kMaxConfigSize);
    v("input_image_size", input_image_size, 1, kMaxConfigSize);
    v("mask_in_chans", mask_in_chans, 1, kMaxConfigSize);
    v("corner_labels", corner_labels);
  }

  std::int64_t mask_input_size() const { return 4 * image_embedding_size; }
};

// Upstream: segment_anything/modeling/transformer.py, TwoWayTransformer.
struct TwoWayTransformerConfig {
  std::int64_t depth = 2;
  std::int64_t embedding_dim = 256;
  std::int64_t num_heads = 8;
  std::int64_t mlp_dim = 2048;
  std::int64_t attention_downsample_rate = 2;
  bool numbered_mlp = false;     // SAM 2's names of the MLP: layers.0, layers.1
  double layer_norm_eps = 1e-5;  // of the blocks

  template <class V>
  void fields(V& v) {
    v("depth", depth, 1, 64);
    v("embedding_dim", embedding_dim, 1, kMaxConfigSize);
    v("num_heads", num_heads, 1, kMaxConfigSize);
    v("mlp_dim", mlp_dim, 1, kMaxConfigSize);
    v("attention_downsample_rate", attention_downsample_rate, 1, kMaxConfigSize);
    v("numbered_mlp", numbered_mlp);
  }
};

// Upstream: segment_anything_hq/modeling/mask_decoder_hq.py, what MaskDecoderHQ adds.
struct HqConfig {
  std::int64_t vit_dim = 768;  // early_dim of the trunk

  template <class V>
  void fields(V& v) {
    v("vit_dim", vit_dim, 1, kMaxConfigSize);
  }

  bool operator==(const HqConfig&) const = default;
};

// Upstream: segment_anything/modeling/mask_decoder.py, MaskDecoder.
struct MaskDecoderConfig {
  TwoWayTransformerConfig transformer;
  std::int64_t num_multimask_outputs = 3;
  std::int64_t iou_head_depth = 3;
  std::int64_t iou_head_hidden_dim = 256;
  std::optional<HqConfig> hq = {};  // SAM-HQ
  // Masks are made of the map before the transformer, with rows and columns swapped.
  bool swapped_map = false;

  template <class V>
  void fields(V& v) {
    v("transformer", transformer);
    v("num_multimask_outputs", num_multimask_outputs, 1, 64);
    v("iou_head_depth", iou_head_depth, 1, 64);
    v("iou_head_hidden_dim", iou_head_hidden_dim, 1, kMaxConfigSize);
    v("hq", hq);
  }

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

  template <class V>
  void fields(V& v) {
    v("image_encoder", image_encoder);
    v("prompt_encoder", prompt_encoder, kHasDefault);
    v("mask_decoder", mask_decoder, kHasDefault);
    v("pixel_mean", pixel_mean, -1e6, 1e6, kHasDefault);
    v("pixel_std", pixel_std, 1e-6, 1e6, kHasDefault);
  }

  // Another input side: tables are resized when the model is loaded.
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

// What tells released variants from each other.
struct ReleasedSizes {
  ImageEncoderConfig image_encoder;
  bool hq = false;
};
// Upstream: segment_anything/build_sam.py, and those of mobile_sam and segment_anything_hq. Those
// of segment_anything are the last ones.
std::span<const SizedRelease<ReleasedSizes>> releases();

}  // namespace sam_rlx::sam
