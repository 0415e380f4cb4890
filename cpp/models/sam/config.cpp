#include "models/sam/config.h"

#include <algorithm>

#include "core/error.h"

namespace sam_rlx::sam {
namespace {

SizedRelease<ImageEncoderConfig> vit(std::string_view variant, const ReleasedFile& file,
                                     ImageEncoderConfig sizes) {
  sizes.mlp_dim = 4 * sizes.embed_dim;
  return {{.variant = variant,
           .name = variant,
           .source = "https://github.com/facebookresearch/segment-anything",
           .license = "Apache-2.0",
           .files = {file}},
          sizes};
}

}  // namespace

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

std::span<const SizedRelease<ImageEncoderConfig>> releases() {
  static const std::array kReleases{
      vit("vit_b", {"1.0", "sam_vit_b_01ec64.pth", 375'042'383},
          {.embed_dim = 768, .depth = 12, .num_heads = 12, .global_attn_indexes = {2, 5, 8, 11}}),
      vit("vit_l", {"1.0", "sam_vit_l_0b3195.pth", 1'249'524'607},
          {.embed_dim = 1024, .depth = 24, .num_heads = 16, .global_attn_indexes = {5, 11, 17, 23}}),
      vit("vit_h", {"1.0", "sam_vit_h_4b8939.pth", 2'564'550'879},
          {.embed_dim = 1280, .depth = 32, .num_heads = 16, .global_attn_indexes = {7, 15, 23, 31}}),
  };
  return kReleases;
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
