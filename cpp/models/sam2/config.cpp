#include "models/sam2/config.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace sam_rlx::sam2 {
namespace {

using Sam2Release = SizedRelease<ReleasedSizes>;

ImageEncoderConfig with_neck(const HieraConfig& trunk) {
  ImageEncoderConfig encoder{.trunk = trunk, .neck = {}};
  encoder.neck.backbone_channel_list = encoder.channel_list();
  return encoder;
}

HieraConfig hiera_l() {
  return {.embed_dim = 144,
          .num_heads = 2,
          .stages = {2, 6, 36, 4},
          .window_spec = {8, 4, 16, 8},
          .global_att_blocks = {23, 33, 43}};
}

// With the bytes of the files of SAM 2.0 and 2.1.
Sam2Release hiera(std::string_view variant, std::string_view name, std::string_view purpose,
                  std::int64_t bytes, std::int64_t bytes_of_2_1, const HieraConfig& trunk) {
  const std::string ending = "_hiera_" + std::string(name) + ".pt";
  return {{.variant = variant,
           .name = name,
           .purpose = purpose,
           .source = "https://github.com/facebookresearch/sam2",
           .license = "Apache-2.0",
           .files = {{"2.0", "sam2" + ending, bytes}, {"2.1", "sam2.1" + ending, bytes_of_2_1}}},
          {with_neck(trunk)}};
}

// The bytes are those of SAM 2.1's file and of 13 more tensors as PyTorch writes them.
Sam2Release hq_sam2() {
  return {{.variant = "hq_hiera_l",
           .name = "hq_large",
           .purpose = "images and videos: thin structures",
           .source = "https://github.com/SysCV/sam-hq",
           .license = "Apache-2.0",
           .files = {{"2.1", "sam2.1_hq_hiera_large.pt", 898'796'353}}},
          {with_neck(hiera_l()), true}};
}

// The bytes are those of its 982 tensors as PyTorch writes them.
Sam2Release edge_tam() {
  return {{.variant = "edgetam",
           .name = "edgetam",
           .purpose = "images and videos, where time counts",
           .source = "https://github.com/facebookresearch/EdgeTAM",
           .license = "Apache-2.0",
           .files = {{"1.0", "edgetam.pt", 56'106'451}}},
          {{.trunk = {},
            .rep_vit = trunks::RepVitConfig(),
            .neck = {.backbone_channel_list = {384, 192, 96, 48}}}}};
}

}  // namespace

// ---------------------------------------------------------------- image encoder

std::int64_t HieraConfig::stage_grid(std::int64_t stage) const {
  return grid() >> std::min(stage, q_pool);
}

std::vector<std::int64_t> HieraConfig::stage_heads() const {
  std::vector<std::int64_t> heads;
  for (std::int64_t stage = 0; stage < num_stages(); ++stage) heads.push_back(num_heads << stage);
  return heads;
}

std::int64_t HieraConfig::image_size_step() const {
  // The window table is tiled over the first grid, which is halved q_pool times.
  return kPatchStride * std::lcm(window_spec.front(), std::int64_t{1} << q_pool);
}

std::vector<MultiScaleBlockConfig> HieraConfig::blocks() const {
  std::vector<MultiScaleBlockConfig> result;
  MultiScaleBlockConfig block{.dim = embed_dim, .dim_out = embed_dim, .num_heads = num_heads};
  block.layer_norm_eps = layer_norm_eps;
  for (std::int64_t stage = 0; stage < num_stages(); ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    for (std::int64_t i = 0; i < stages[s]; ++i) {
      const bool first = stage > 0 && i == 0;
      if (first) {
        block.dim_out = 2 * block.dim;
        block.num_heads *= 2;
      }
      block.q_pool = first && stage <= q_pool;
      block.mlp_dim = static_cast<std::int64_t>(static_cast<double>(block.dim_out) * mlp_ratio);
      // The first block of a stage still has the windows of the stage before.
      block.window_size = window_spec[first ? s - 1 : s];
      const auto index = static_cast<std::int64_t>(result.size());
      if (std::find(global_att_blocks.begin(), global_att_blocks.end(), index) !=
          global_att_blocks.end()) {
        block.window_size = 0;
      }
      result.push_back(block);
      block.dim = block.dim_out;
    }
  }
  return result;
}

std::vector<std::int64_t> ImageEncoderConfig::channel_list() const {
  std::vector<std::int64_t> channels;
  for (std::int64_t i = num_stages() - 1; i >= 0; --i) channels.push_back(stage_width(i));
  return channels;
}

bool FpnNeckConfig::top_down(std::int64_t level) const {
  return std::find(fpn_top_down_levels.begin(), fpn_top_down_levels.end(), level) !=
         fpn_top_down_levels.end();
}

std::span<const Sam2Release> releases() {
  static const std::array kReleases{
      edge_tam(),
      hq_sam2(),
      hiera("hiera_t", "tiny", "images and videos: the usual choice", 155'906'050, 156'008'466, {}),
      hiera("hiera_s", "small", "images and videos: between hiera_t and hiera_b+", 184'309'650,
            184'416'285, {.stages = {1, 2, 11, 2}, .global_att_blocks = {7, 10, 13}}),
      hiera("hiera_b+", "base_plus", "images and videos: between hiera_s and hiera_l", 323'493'298,
            323'606'802,
            {.embed_dim = 112,
             .num_heads = 2,
             .stages = {2, 3, 16, 3},
             .global_att_blocks = {12, 16, 20},
             .window_pos_embed_bkg_spatial_size = {14, 14}}),
      hiera("hiera_l", "large", "images and videos, where time does not count", 897'952'466,
            898'083'611, hiera_l()),
  };
  return kReleases;
}

// ---------------------------------------------------------------- memory

std::int64_t SpatialPerceiverConfig::windows() const {
  std::int64_t side = 1;
  while ((side + 1) * (side + 1) <= num_latents_2d) ++side;
  return side;
}

// ---------------------------------------------------------------- the whole

void HeadsConfig::set_rules(const Rules& rules) {
  padding_label = rules.padding_label;
  prompt_layer_norm_eps = rules.prompt_epsilon.value_or(prompt_layer_norm_eps);
}

void Sam2Config::set_rules(const Rules& rules) {
  HieraConfig& trunk = image_encoder.trunk;
  trunk.layer_norm_eps = rules.trunk_epsilon.value_or(trunk.layer_norm_eps);
  heads.set_rules(rules);
}

void Sam2Config::set_image_size(std::int64_t size) {
  std::int64_t step = image_encoder.image_size_step();
  if (heads.spatial_perceiver) {
    step = std::lcm(step, heads.base.backbone_stride * heads.spatial_perceiver->windows());
  }
  if (size < step || size % step != 0 || size > 4096) {
    fail("image_size", "a multiple of " + std::to_string(step) + " up to 4096",
         std::to_string(size));
  }
  image_encoder.set_image_size(size);
  heads.base.image_size = size;
  heads.memory_attention.feat_size = heads.base.grid();
}

std::vector<std::string_view> Sam2Config::ignored_keys() const {
  if (!image_encoder.rep_vit) return {};
  // Counters of training.
  return {
      "image_encoder.trunk.body.stem.conv{i}.bn.num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.blocks.{i}.token_mixer.conv.bn.num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.blocks.{i}.token_mixer.conv1.bn.num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.blocks.{i}.channel_mixer.conv{i}.bn.num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.downsample.pre_block.token_mixer.conv.bn."
      "num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.downsample.pre_block.token_mixer.conv1.bn."
      "num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.downsample.pre_block.channel_mixer.conv{i}.bn."
      "num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.downsample.spatial_downsample.bn.num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.downsample.channel_downsample.bn.num_batches_tracked",
      "image_encoder.trunk.body.stages_{i}.downsample.ffn.conv{i}.bn.num_batches_tracked",
  };
}

// Nearly all of the work is there; prompts, mask decoder and what makes a memory stay exact. So do
// the first block of the trunk, whose short rows gain least, and the few projections from one stage
// to the next: all that follows is added to what they give. With the projections masks of
// sam2-nano's clicks fall below a mean IoU of 0.98 with float32's, with the block close to it. In
// int8 so do the first layers of RepViT's channel mixers: with both layers in int8 its maps have
// half as much error again as with the second ones alone, and with the first ones alone more too.
LayerSet Sam2Config::reduced_layers(WeightFormat format) {
  static constexpr std::string_view kLayers[]{"image_encoder.trunk.blocks",
                                              "image_encoder.trunk.body.*.blocks.*.channel_mixer",
                                              "memory_attention.layers"};
  static constexpr std::string_view kExact[]{
      "image_encoder.trunk.blocks.0",
      "image_encoder.trunk.blocks.*.proj",
      "image_encoder.trunk.body.*.blocks.*.channel_mixer.conv1",
  };
  const std::span<const std::string_view> exact(kExact);
  return {.within = kLayers,
          .except = format == WeightFormat::kInt8 ? exact : exact.first(exact.size() - 1)};
}

// What int8 spoils, bfloat16 does not.
LayerSet Sam2Config::bfloat16_layers() {
  static constexpr std::string_view kLayers[]{
      "image_encoder.trunk.blocks",
      "image_encoder.trunk.body.*.blocks.*.channel_mixer",
      "image_encoder.neck",
  };
  return {.within = kLayers, .except = {}};
}

// They lose nothing in memory.
std::span<const std::string_view> Sam2Config::packed_layers() {
  static constexpr std::string_view kLayers[]{"image_encoder.trunk.blocks",
                                              "memory_attention.layers"};
  return kLayers;
}

}  // namespace sam_rlx::sam2
