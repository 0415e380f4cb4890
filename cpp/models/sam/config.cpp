#include "models/sam/config.h"

#include <algorithm>

#include "core/error.h"

namespace sam_rlx::sam {
namespace {

using SamRelease = SizedRelease<ReleasedSizes>;

SamRelease release(std::string_view variant, std::string_view purpose, std::string_view source,
                   const ReleasedFile& file, const ReleasedSizes& sizes) {
  return {{.variant = variant,
           .name = variant,
           .purpose = purpose,
           .source = source,
           .license = "Apache-2.0",
           .files = {file}},
          sizes};
}

SamRelease sam(std::string_view variant, std::string_view purpose, const ReleasedFile& file,
               const ImageEncoderConfig& sizes) {
  return release(variant, purpose, "https://github.com/facebookresearch/segment-anything", file,
                 {sizes});
}

SamRelease sam_hq(std::string_view variant, std::string_view purpose, const ReleasedFile& file,
                  const ImageEncoderConfig& sizes) {
  return release(variant, purpose, "https://github.com/SysCV/sam-hq", file, {sizes, true});
}

ImageEncoderConfig vit(std::int64_t embed_dim, std::int64_t depth, std::int64_t num_heads) {
  ImageEncoderConfig sizes{
      .embed_dim = embed_dim, .depth = depth, .num_heads = num_heads, .mlp_dim = 4 * embed_dim};
  for (std::int64_t i = 1; i <= 4; ++i) sizes.global_attn_indexes.push_back(i * depth / 4 - 1);
  return sizes;
}
ImageEncoderConfig vit_b() { return vit(768, 12, 12); }
ImageEncoderConfig vit_l() { return vit(1024, 24, 16); }
ImageEncoderConfig vit_h() { return vit(1280, 32, 16); }

ImageEncoderConfig vit_t() {
  return {.tiny_vit = trunks::TinyViTConfig{.embed_dims = {64, 128, 160, 320},
                                            .depths = {2, 2, 6, 2},
                                            .num_heads = {2, 4, 5, 10},
                                            .window_sizes = {7, 7, 14, 7}}};
}

}  // namespace

bool ImageEncoderConfig::is_global(std::int64_t block) const {
  return std::find(global_attn_indexes.begin(), global_attn_indexes.end(), block) !=
         global_attn_indexes.end();
}

std::int64_t ImageEncoderConfig::early_dim() const {
  if (!tiny_vit) {
    const auto block = std::min_element(global_attn_indexes.begin(), global_attn_indexes.end());
    return block != global_attn_indexes.end() && *block < depth ? embed_dim : 0;
  }
  const trunks::TinyViTConfig& t = *tiny_vit;
  const bool whole =
      t.num_layers() >= 2 && t.patch_stride() * t.merge_stride(0) * t.merge_stride(1) == t.stride();
  return whole ? t.embed_dims[std::min<std::size_t>(2, t.embed_dims.size() - 1)] : 0;
}

void SamConfig::set_rules(const Rules& rules) {
  image_encoder.layer_norm_eps = rules.trunk_epsilon.value_or(image_encoder.layer_norm_eps);
  prompt_encoder.layer_norm_eps = rules.prompt_epsilon.value_or(prompt_encoder.layer_norm_eps);
  prompt_encoder.padding_label = rules.padding_label;
  mask_decoder.swapped_map = rules.swapped_map && mask_decoder.hq.has_value();
  TwoWayTransformerConfig& transformer = mask_decoder.transformer;
  transformer.layer_norm_eps = rules.decoder_epsilon.value_or(transformer.layer_norm_eps);
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

std::span<const SizedRelease<ReleasedSizes>> releases() {
  static const std::array kReleases{
      release("vit_t", "images, where time counts", "https://github.com/ChaoningZhang/MobileSAM",
              {"1.0", "mobile_sam.pt", 40'728'226}, {vit_t()}),
      sam_hq("hq_vit_tiny", "images: thin structures, where time counts",
             {"1.0", "sam_hq_vit_tiny.pth", 42'528'543}, vit_t()),
      sam_hq("hq_vit_b", "images: thin structures", {"1.0", "sam_hq_vit_b.pth", 379'351'065},
             vit_b()),
      sam_hq("hq_vit_l", "images: thin structures, between hq_vit_b and hq_vit_h",
             {"1.0", "sam_hq_vit_l.pth", 1'254'888'265}, vit_l()),
      sam_hq("hq_vit_h", "images: thin structures, where time does not count",
             {"1.0", "sam_hq_vit_h.pth", 2'570'967'401}, vit_h()),
      sam("vit_b", "images: SAM's usual size", {"1.0", "sam_vit_b_01ec64.pth", 375'042'383},
          vit_b()),
      sam("vit_l", "images: between vit_b and vit_h",
          {"1.0", "sam_vit_l_0b3195.pth", 1'249'524'607}, vit_l()),
      sam("vit_h", "images, where time does not count",
          {"1.0", "sam_vit_h_4b8939.pth", 2'564'550'879}, vit_h()),
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

// What int8 leaves of TinyViT's blocks stays float32: little is left of its room for errors.
LayerSet SamConfig::bfloat16_layers() {
  static constexpr std::string_view kLayers[]{"image_encoder.neck"};
  return {.within = kLayers, .except = {}};
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
