#include "models/sam/config.h"

#include <algorithm>

#include "core/error.h"

namespace sam_rlx::sam {

bool ImageEncoderConfig::is_global(std::int64_t block) const {
  return std::find(global_attn_indexes.begin(), global_attn_indexes.end(), block) !=
         global_attn_indexes.end();
}

void SamConfig::set_image_size(std::int64_t size) {
  const std::int64_t patch = image_encoder.patch_size;
  if (size < patch || size % patch != 0 || size > 4096) {
    fail("image_size", "a multiple of " + std::to_string(patch) + " up to 4096",
         std::to_string(size));
  }
  image_encoder.img_size = size;
  prompt_encoder.input_image_size = size;
  prompt_encoder.image_embedding_size = size / patch;
}

SamConfig released_config(const std::string& variant) {
  SamConfig config;
  config.variant = variant;
  ImageEncoderConfig& encoder = config.image_encoder;
  if (variant == "vit_b") {
    encoder.global_attn_indexes = {2, 5, 8, 11};
  } else if (variant == "vit_l") {
    encoder.embed_dim = 1024;
    encoder.depth = 24;
    encoder.num_heads = 16;
    encoder.global_attn_indexes = {5, 11, 17, 23};
  } else if (variant == "vit_h") {
    encoder.embed_dim = 1280;
    encoder.depth = 32;
    encoder.num_heads = 16;
    encoder.global_attn_indexes = {7, 15, 23, 31};
  } else {
    fail<UnsupportedError>("variant", "vit_b, vit_l or vit_h", variant);
  }
  encoder.mlp_dim = 4 * encoder.embed_dim;
  return config;
}

// Nearly all of the work is there; the prompt encoder and the mask decoder stay exact.
LayerSet SamConfig::reduced_layers() {
  static constexpr std::string_view kLayers[]{"image_encoder.blocks"};
  return {.within = kLayers, .except = {}};
}

// They lose nothing in memory.
std::span<const std::string_view> SamConfig::packed_layers() {
  static constexpr std::string_view kLayers[]{"image_encoder.blocks"};
  return kLayers;
}

}  // namespace sam_rlx::sam
