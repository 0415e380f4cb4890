#include "models/sam/config.h"

#include <algorithm>

#include "core/error.h"

namespace sam_rlx::sam {
namespace {

SizedRelease<ImageEncoderConfig> vit(std::string_view variant, std::string_view purpose,
                                     const ReleasedFile& file, ImageEncoderConfig sizes) {
  sizes.mlp_dim = 4 * sizes.embed_dim;
  return {{.variant = variant,
           .name = variant,
           .purpose = purpose,
           .source = "https://github.com/facebookresearch/segment-anything",
           .license = "Apache-2.0",
           .files = {file}},
          sizes};
}

SizedRelease<ImageEncoderConfig> mobile_sam() {
  return {{.variant = "vit_t",
           .name = "vit_t",
           .purpose = "images, where time counts",
           .source = "https://github.com/ChaoningZhang/MobileSAM",
           .license = "Apache-2.0",
           .files = {{"1.0", "mobile_sam.pt", 40'728'226}}},
          {.tiny_vit = TinyViTConfig{.embed_dims = {64, 128, 160, 320},
                                     .depths = {2, 2, 6, 2},
                                     .num_heads = {2, 4, 5, 10},
                                     .window_sizes = {7, 7, 14, 7}}}};
}

}  // namespace

// The widths behind which upstream keeps the map: the last ones of TinyViT 5M, 11M and 21M.
std::int64_t TinyViTConfig::merge_stride(std::int64_t layer) const {
  if (layer + 1 == num_layers()) return 1;
  const std::int64_t width = embed_dims[static_cast<std::size_t>(layer + 1)];
  return width == 320 || width == 448 || width == 576 ? 1 : 2;
}

std::int64_t TinyViTConfig::stride() const {
  std::int64_t stride = patch_stride();
  for (std::int64_t i = 0; i < num_layers(); ++i) stride *= merge_stride(i);
  return stride;
}

bool TinyViTConfig::fits() const {
  const std::size_t layers = embed_dims.size();
  if (layers < 1 || layers > 8 || depths.size() != layers || num_heads.size() != layers ||
      window_sizes.size() != layers || patch_kernel % 2 == 0 || local_conv_size % 2 == 0 ||
      embed_dims.front() % 2 != 0) {
    return false;
  }
  for (std::size_t i = 0; i < layers; ++i) {
    if (embed_dims[i] % num_heads[i] != 0) return false;
  }
  return true;
}

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
      mobile_sam(),
      vit("vit_b", "images: SAM's usual size", {"1.0", "sam_vit_b_01ec64.pth", 375'042'383},
          {.embed_dim = 768, .depth = 12, .num_heads = 12, .global_attn_indexes = {2, 5, 8, 11}}),
      vit("vit_l", "images: between vit_b and vit_h",
          {"1.0", "sam_vit_l_0b3195.pth", 1'249'524'607},
          {.embed_dim = 1024,
           .depth = 24,
           .num_heads = 16,
           .global_attn_indexes = {5, 11, 17, 23}}),
      vit("vit_h", "images, where time does not count",
          {"1.0", "sam_vit_h_4b8939.pth", 2'564'550'879},
          {.embed_dim = 1280,
           .depth = 32,
           .num_heads = 16,
           .global_attn_indexes = {7, 15, 23, 31}}),
  };
  return kReleases;
}

std::vector<std::string_view> SamConfig::ignored_keys() const {
  if (!image_encoder.tiny_vit) return {};
  return {
      // Of the classifier that the trunk was trained as.
      "image_encoder.norm_head.",
      "image_encoder.head.",
      // Counters of training.
      "image_encoder.patch_embed.seq.{i}.bn.num_batches_tracked",
      "image_encoder.layers.{i}.blocks.{i}.conv{i}.bn.num_batches_tracked",
      "image_encoder.layers.{i}.blocks.{i}.local_conv.bn.num_batches_tracked",
      "image_encoder.layers.{i}.downsample.conv{i}.bn.num_batches_tracked",
  };
}

// Nearly all of the work is there; the prompt encoder and the mask decoder stay exact. So do the
// convolutions of TinyViT, whose batch norms differ much from channel to channel. In int8 so do
// its layers behind GELU and attention: with them masks of LiteMedSAM's trained weights have a mean
// IoU of 0.94 with float32's, without them 0.97.
LayerSet SamConfig::reduced_layers(WeightFormat format) {
  static constexpr std::string_view kExact[]{"image_encoder.layers.*.blocks.*.attn.proj",
                                             "image_encoder.layers.*.blocks.*.mlp.fc2"};
  const std::span<const std::string_view> exact(kExact);
  return {.within = packed_layers(),
          .except = format == WeightFormat::kInt8 ? exact : exact.first(0)};
}

// They lose nothing in memory.
std::span<const std::string_view> SamConfig::packed_layers() {
  static constexpr std::string_view kLayers[]{
      "image_encoder.blocks",
      "image_encoder.layers.*.blocks.*.attn",
      "image_encoder.layers.*.blocks.*.mlp",
  };
  return kLayers;
}

}  // namespace sam_rlx::sam
