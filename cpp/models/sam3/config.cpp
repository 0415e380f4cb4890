#include "models/sam3/config.h"

#include <algorithm>

#include "core/error.h"

namespace sam_rlx::sam3 {
namespace {

constexpr std::string_view kVariant31 = "sam3.1";

// What files of EfficientSAM3 have in the trunk, and the network has not.
std::span<const std::string_view> student_keys() {
  static constexpr std::string_view kKeys[]{
      // Of the classifier that the trunk was trained as.
      "detector.backbone.vision_backbone.trunk.model.backbone.model.norm_head.",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.head.",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.classifier.",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.distill_head.",
      // Counters of training.
      "detector.backbone.vision_backbone.trunk.model.head.{i}.num_batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.features.{i}.{i}.bn.num_"
      "batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.features.{i}.token_mixer.{i}."
      "bn.num_batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.features.{i}.token_mixer.{i}."
      "conv.bn.num_batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.features.{i}.channel_mixer.m.{"
      "i}.bn.num_batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.patch_embed.seq.{i}.bn.num_"
      "batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.{i}.blocks.{i}.conv{i}."
      "bn.num_batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.{i}.blocks.{i}.local_"
      "conv.bn.num_batches_tracked",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.{i}.downsample.conv{i}."
      "bn.num_batches_tracked",
  };
  return kKeys;
}

}  // namespace

bool ViTConfig::is_global(std::int64_t block) const {
  return std::find(global_att_blocks.begin(), global_att_blocks.end(), block) !=
         global_att_blocks.end();
}

std::span<const Release> releases() {
  static const std::array kReleases{
      Release{.variant = "sam3",
              .name = "sam3",
              .purpose = "all that a text names, in images and videos",
              .source = "https://github.com/facebookresearch/sam3",
              .license = "SAM License",
              .license_url = "https://github.com/facebookresearch/sam3/blob/main/LICENSE",
              .files = {{"3.0", "sam3.pt", 3'450'062'241}}},
      Release{.variant = kVariant31,
              .name = "sam3.1",
              .purpose = "all that a text names, and many objects in videos",
              .source = "https://github.com/facebookresearch/sam3",
              .license = "SAM License",
              .license_url = "https://github.com/facebookresearch/sam3/blob/main/LICENSE",
              .files = {{"3.1", "sam3.1_multiplex.pt", 3'502'755'717}}},
  };
  return kReleases;
}

void Sam3Config::use_3_1() {
  variant = kVariant31;
  vision.neck.scale_factors = {4.0, 2.0, 1.0};
  vision.neck.scalp = 0;
}

void Sam3Config::use_multiplex() {
  multiplex.emplace();
  vision.neck.add_sam2_neck = vision.neck.add_propagation_neck = true;
}

std::string_view Sam3Config::version() const {
  return multiplex || variant == kVariant31 ? "3.1" : "3.0";
}

void Sam3Config::set_rules(const Rules& rules) {
  vision.trunk.layer_norm_eps = rules.trunk_epsilon.value_or(vision.trunk.layer_norm_eps);
  text.layer_norm_eps = rules.text_epsilon.value_or(text.layer_norm_eps);
  vision.neck.keep_all_levels = rules.all_levels;
  detector.class_token = rules.class_token;
  detector.presence_limit = rules.presence_limit;
  if (tracker) tracker->set_rules(rules);
}

void Sam3Config::set_image_size(std::int64_t size) {
  const std::int64_t step = vision.trunk.patch_size;
  if (size < step || size % step != 0 || size > kMaxImageSize) {
    fail("image_size",
         "a multiple of " + std::to_string(step) + " up to " + std::to_string(kMaxImageSize),
         std::to_string(size));
  }
  vision.trunk.img_size = size;
  if (vision.trunk.student && vision.trunk.student->rep_vit) {
    vision.trunk.student->rep_vit->image_size = size;
  }
  if (tracker) {
    tracker->base.image_size = size;
    tracker->memory_attention.feat_size = tracker->base.grid();
  }
  if (multiplex) multiplex->memory_attention.feat_size = vision.trunk.grid();
}

std::vector<std::string_view> Sam3Config::ignored_keys() const {
  std::vector<std::string_view> keys{
      // A vector for each text that no part reads.
      "detector.backbone.language_backbone.encoder.text_projection",
      "detector.backbone.language_backbone.encoder.projection_layer",
      // Tables that follow from the sizes.
      "detector.backbone.vision_backbone.trunk.blocks.{i}.attn.freqs_cis",
      // Counters of training.
      "detector.backbone.language_backbone.encoder.transformer.{i}.token_mixer.norm.rbr_skip.num_"
      "batches_tracked",
      "detector.backbone.language_backbone.encoder.transformer.{i}.token_mixer.mixer.rbr_skip."
      "num_batches_tracked",
      "detector.backbone.language_backbone.encoder.transformer.{i}.token_mixer.mixer.rbr_conv.{i}."
      "bn."
      "num_batches_tracked",
      "detector.backbone.language_backbone.encoder.transformer.{i}.convffn.conv.bn.num_batches_"
      "tracked",
  };
  if (vision.trunk.student) {
    const auto student = student_keys();
    keys.insert(keys.end(), student.begin(), student.end());
  }
  // Without the tracker nothing reads its neck.
  if (!tracker) keys.emplace_back("detector.backbone.vision_backbone.sam2_convs.");
  return keys;
}

// Nearly all of an image's work is there. What clicks and examples are encoded with, the detector
// and boxes, scores and masks are not: with the detector's layers in int8 instances of sam3-nano's
// texts fall below a mean IoU of 0.98 with float32's. Nor are the first blocks of the trunk:
// rounding the first one to bytes moves masks more than rounding all attention does. Of
// EfficientSAM3's trunks TinyViT's layers are those of SamConfig, and RepViT's are not in int8:
// with random weights a third of its map's range is lost, and no trained ones were at hand.
LayerSet Sam3Config::reduced_layers(WeightFormat format) {
  static constexpr std::string_view kLayers[]{
      "detector.backbone.vision_backbone.trunk.blocks",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.features.*.channel_mixer",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.*.blocks.*.attn",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.*.blocks.*.mlp",
      "detector.backbone.language_backbone.encoder.transformer",
      "tracker.transformer.encoder.layers",
      "tracker.model.transformer.encoder.layers",
  };
  static constexpr std::string_view kExact[]{
      "detector.backbone.vision_backbone.trunk.blocks.0",
      "detector.backbone.vision_backbone.trunk.blocks.1",
      // In int8.
      "detector.backbone.vision_backbone.trunk.model.backbone.model.features.*.channel_mixer",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.*.blocks.*.attn.proj",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.*.blocks.*.mlp.fc2",
  };
  const std::span<const std::string_view> exact(kExact);
  return {.within = kLayers, .except = format == WeightFormat::kInt8 ? exact : exact.first(2)};
}

// What int8 spoils, bfloat16 does not. Tokens' attention of the detector computes with the weights
// themselves.
LayerSet Sam3Config::bfloat16_layers() {
  static constexpr std::string_view kLayers[]{
      "detector.backbone.vision_backbone.trunk.blocks",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.features.*.channel_mixer",
      "detector.backbone.vision_backbone.trunk.model.head",
      "detector.backbone.vision_backbone.convs",
      "detector.backbone.vision_backbone.sam2_convs",
      "detector.backbone.vision_backbone.interactive_convs",
      "detector.backbone.vision_backbone.propagation_convs",
      "detector.transformer.encoder.layers.*.self_attn",
      "detector.transformer.encoder.layers.*.linear1",
      "detector.transformer.encoder.layers.*.linear2",
      "detector.transformer.decoder.layers.*.cross_attn",
      "detector.transformer.decoder.layers.*.linear1",
      "detector.transformer.decoder.layers.*.linear2",
      "detector.segmentation_head.pixel_decoder.conv_layers",
  };
  return {.within = kLayers, .except = {}};
}

// They lose nothing in memory: more of them than what other precisions round.
std::span<const std::string_view> Sam3Config::packed_layers() {
  static constexpr std::string_view kLayers[]{
      "detector.backbone.vision_backbone.trunk.blocks",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.*.blocks.*.attn",
      "detector.backbone.vision_backbone.trunk.model.backbone.model.layers.*.blocks.*.mlp",
      "detector.backbone.language_backbone.encoder.transformer",
      "detector.backbone.language_backbone.encoder.token_embedding",
      "detector.transformer.encoder.layers.*.self_attn",
      "detector.transformer.encoder.layers.*.linear1",
      "detector.transformer.encoder.layers.*.linear2",
      "detector.transformer.decoder.layers.*.linear1",
      "detector.transformer.decoder.layers.*.linear2",
      "tracker.transformer.encoder.layers",
      "tracker.model.transformer.encoder.layers",
  };
  return kLayers;
}

}  // namespace sam_rlx::sam3
