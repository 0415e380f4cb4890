#include "loading/sam2/config.h"

#include <algorithm>
#include <array>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"
#include "loading/hugging_face_config.h"
#include "loading/preprocessor.h"
#include "loading/releases.h"
#include "loading/sam2/heads_config.h"
#include "loading/sizes_text.h"

namespace sam_rlx {
namespace {

constexpr const char* kTrunk = "image_encoder.trunk.";
constexpr const char* kNeck = "image_encoder.neck.";

// ---------------------------------------------------------------- sizes that fit each other

bool trunk_fits(const sam2::HieraConfig& c) {
  if (c.stages.empty() || c.stages.size() > 8 || c.window_spec.size() != c.stages.size() ||
      c.q_pool >= c.num_stages() || c.embed_dim % c.num_heads != 0 ||
      c.stage_width(c.num_stages() - 1) > kMaxConfigSize ||
      c.image_size % c.image_size_step() != 0) {
    return false;
  }
  const auto blocks = c.blocks();
  return std::all_of(blocks.begin(), blocks.end(), [](const sam2::MultiScaleBlockConfig& block) {
    // Upstream pools inside of windows, so there is one and its side is even.
    return block.mlp_dim >= 1 &&
           (!block.q_pool || (block.window_size > 0 && block.window_size % 2 == 0));
  });
}

bool trunk_fits(const trunks::RepVitConfig& c) {
  return !c.embed_dim.empty() && c.embed_dim.size() <= 8 && c.depth.size() == c.embed_dim.size() &&
         c.embed_dim.front() % 2 == 0 && c.image_size % c.image_size_step() == 0 &&
         std::all_of(c.embed_dim.begin(), c.embed_dim.end(),
                     [&](std::int64_t width) { return width * c.mlp_ratio <= kMaxConfigSize; });
}

bool trunk_fits(const sam2::ImageEncoderConfig& c) {
  return c.rep_vit ? trunk_fits(*c.rep_vit) : trunk_fits(c.trunk);
}

bool neck_fits(const sam2::ImageEncoderConfig& c) {
  const std::int64_t levels = c.num_stages();
  const auto& channels = c.neck.backbone_channel_list;
  if (static_cast<std::int64_t>(channels.size()) != levels || c.neck.d_model % 4 != 0 ||
      c.scalp >= levels) {
    return false;
  }
  for (std::int64_t level = 0; level < levels; ++level) {
    const std::int64_t width = channels[static_cast<std::size_t>(levels - 1 - level)];
    const bool upsamples = c.neck.top_down(level) && level + 1 < levels;
    if (width != c.stage_width(level) ||
        (upsamples && c.stage_grid(level) != 2 * c.stage_grid(level + 1))) {
      return false;
    }
  }
  return true;
}

// ---------------------------------------------------------------- metadata

// Files of this project's training have all fields on one level, with upstream's names.
constexpr KeyRow kFileNames[] = {
    {"heads.mask_decoder.transformer.", "decoder_"},
    {"heads.memory_encoder.out_dim", "mem_dim"},
    {"heads.memory_encoder.total_stride", "mask_downsampler_total_stride"},
    {"heads.memory_encoder.fuser_layers", "fuser_num_layers"},
    {"heads.memory_attention.rope_theta", "rope_theta"},
    {"heads.memory_attention.", "memory_attention_"},
    {"pixel_mean", "image_mean"},
    {"pixel_std", "image_std"},
};

void check_fits(const sam2::ImageEncoderConfig& encoder, const char* where) {
  if (trunk_fits(encoder) && neck_fits(encoder)) return;
  fail<CheckpointError>(where, "sizes that divide each other as in SAM 2", sizes_text_of(encoder));
}

// Longer lists of stages are not those of a trunk: their widths may not be numbers.
std::vector<std::int64_t> channel_list(const sam2::ImageEncoderConfig& encoder) {
  constexpr std::int64_t kMaxStages = 8;
  return encoder.num_stages() <= kMaxStages ? encoder.channel_list() : std::vector<std::int64_t>();
}

sam2::Sam2Config config_from_file(const ConfigReader& reader, const std::string& variant,
                                  const std::optional<trunks::RepVitConfig>& rep_vit) {
  sam2::Sam2Config config;
  config.variant = variant;
  sam2::ImageEncoderConfig& encoder = config.image_encoder;
  encoder.rep_vit = rep_vit;
  encoder.trunk.q_pool = -1;
  visit_fields(config, reader);
  if (encoder.trunk.q_pool < 0) encoder.trunk.q_pool = encoder.trunk.num_stages() - 1;
  encoder.neck.backbone_channel_list = channel_list(encoder);
  check_fits(encoder, ConfigReader::kWhere);
  return config;
}

// ---------------------------------------------------------------- tensors

// RepViT's sizes, all but the side of the input. Its stages are named in two ways: with batch
// norms, or fused.
std::optional<trunks::RepVitConfig> rep_vit_of(const StateDict& state_dict) {
  const std::string body = std::string(kTrunk) + "body.", stages = body + "stages_";
  trunks::RepVitConfig config;
  config.fused = state_dict.contains(body + "stem.conv1.weight");
  if (!config.fused && !state_dict.contains(body + "stem.conv1.c.weight")) return std::nullopt;
  const std::string mixer = std::string(".channel_mixer.conv1") + (config.fused ? "" : ".c");
  config.embed_dim.clear();
  config.depth.clear();
  for (std::int64_t i = 0; i < 8; ++i) {
    const std::string blocks = stages + std::to_string(i) + ".blocks.";
    const std::string first = blocks + "0" + mixer + ".weight";
    if (!state_dict.contains(first)) break;
    const TensorEntry& weight = required_tensor(state_dict, first, 4);
    config.embed_dim.push_back(size_of(weight, 1));
    config.depth.push_back(count_of(state_dict, blocks, mixer + ".weight"));
    config.mlp_ratio = std::max<std::int64_t>(size_of(weight, 0) / size_of(weight, 1), 1);
  }
  if (config.embed_dim.empty()) {
    fail<CheckpointError>(state_dict.source + ": " + stages + "0", "blocks of RepViT", "none");
  }
  return config;
}

// Hiera's sizes, as far as its tensors tell them.
sam2::HieraConfig hiera_of(const StateDict& state_dict) {
  const std::string trunk_name = kTrunk;
  sam2::HieraConfig trunk;
  trunk.embed_dim =
      size_of(required_tensor(state_dict, trunk_name + "patch_embed.proj.weight", 4), 0);
  const TensorEntry& table = required_tensor(state_dict, trunk_name + "pos_embed", 4);
  trunk.window_pos_embed_bkg_spatial_size = {size_of(table, 2), size_of(table, 3)};
  trunk.window_spec = {size_of(required_tensor(state_dict, trunk_name + "pos_embed_window", 4), 3)};
  // The first block of a stage projects its shortcut.
  trunk.stages = {0};
  for (std::int64_t i = 0;; ++i) {
    const std::string block = trunk_name + "blocks." + std::to_string(i) + ".";
    if (!state_dict.contains(block + "norm1.weight")) break;
    if (state_dict.contains(block + "proj.weight")) trunk.stages.push_back(0);
    ++trunk.stages.back();
  }
  return trunk;
}

// What the tensors of the trunk and the neck tell; the rest is the default.
sam2::ImageEncoderConfig config_from_shapes(const StateDict& state_dict) {
  const std::string neck_name = kNeck;
  sam2::ImageEncoderConfig config;
  config.rep_vit = rep_vit_of(state_dict);
  if (!config.rep_vit) config.trunk = hiera_of(state_dict);
  config.neck.backbone_channel_list.clear();
  for (std::int64_t i = 0;; ++i) {
    const std::string conv = neck_name + "convs." + std::to_string(i) + ".conv.weight";
    if (!state_dict.contains(conv)) break;
    const TensorEntry& weight = required_tensor(state_dict, conv, 4);
    config.neck.d_model = size_of(weight, 0);
    config.neck.backbone_channel_list.push_back(size_of(weight, 1));
  }
  return config;
}

bool same_shapes(const sam2::ImageEncoderConfig& a, const sam2::ImageEncoderConfig& b) {
  return !a.rep_vit && !b.rep_vit && a.trunk.embed_dim == b.trunk.embed_dim &&
         a.trunk.stages == b.trunk.stages &&
         a.trunk.window_spec.front() == b.trunk.window_spec.front() &&
         a.trunk.window_pos_embed_bkg_spatial_size == b.trunk.window_pos_embed_bkg_spatial_size &&
         a.neck.d_model == b.neck.d_model &&
         a.neck.backbone_channel_list == b.neck.backbone_channel_list;
}

// The release that has these sizes at any image size, else "custom".
std::string released_name(const sam2::Sam2Config& config) {
  const sam2::ImageEncoderConfig& found = config.image_encoder;
  for (const auto& release : sam2::releases()) {
    if (release.sizes.hq != config.heads.mask_decoder.hq) continue;
    sam2::ImageEncoderConfig known = release.sizes.image_encoder;
    known.set_image_size(found.image_size());
    if (known.rep_vit && found.rep_vit) known.rep_vit->fused = found.rep_vit->fused;
    const bool same_trunk =
        known.rep_vit == found.rep_vit && (known.rep_vit || known.trunk == found.trunk);
    if (same_trunk && found.neck == known.neck && found.scalp == known.scalp) {
      return std::string(release.variant);
    }
  }
  return "custom";
}

// The image encoder of the release with these shapes, if there is one.
std::optional<sam2::ImageEncoderConfig> release_of_shapes(const sam2::ImageEncoderConfig& found) {
  for (const auto& release : sam2::releases()) {
    const sam2::ImageEncoderConfig& known = release.sizes.image_encoder;
    if (same_shapes(found, known)) return known;
  }
  return std::nullopt;
}

std::string list_text(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "(" + text + ")";
}

std::string trunk_text(const sam2::ImageEncoderConfig& encoder) {
  if (const auto& rep_vit = encoder.rep_vit) {
    return "RepViT of widths " + list_text(rep_vit->embed_dim) + ", blocks per stage " +
           list_text(rep_vit->depth);
  }
  return "width " + std::to_string(encoder.trunk.embed_dim) + ", blocks per stage " +
         list_text(encoder.trunk.stages);
}

sam2::Sam2Config config_from_tensors(const StateDict& state_dict) {
  const sam2::ImageEncoderConfig found = config_from_shapes(state_dict);
  if (found.rep_vit) {  // all sizes are in the tensors
    check_fits(found, state_dict.source.c_str());
    sam2::Sam2Config config;
    config.image_encoder = found;
    return config;
  }
  if (const auto known = release_of_shapes(found)) {
    sam2::Sam2Config config;
    config.image_encoder = *known;
    return config;
  }
  fail<CheckpointError>(state_dict.source,
                        "the sizes of a released SAM 2, or a config in the metadata",
                        trunk_text(found));
}

// ---------------------------------------------------------------- config.json

// transformers' Sam2VisionConfig and EdgeTamVisionConfig.
constexpr KeyRow kHuggingFaceVision[] = {
    {"image_encoder.rep_vit.in_chans", "backbone_config.model_args.in_chans"},
    {"image_encoder.trunk.in_chans", "backbone_config.num_channels"},
    {"image_encoder.trunk.embed_dim", "backbone_config.hidden_size"},
    {"image_encoder.trunk.stages", "backbone_config.blocks_per_stage"},
    {"image_encoder.trunk.q_pool", "backbone_config.num_query_pool_stages"},
    {"image_encoder.trunk.mlp_ratio", "backbone_config.mlp_ratio"},
    {"image_encoder.trunk.window_spec", "backbone_config.window_size_per_stage"},
    {"image_encoder.trunk.global_att_blocks", "backbone_config.global_attention_blocks"},
    {"image_encoder.trunk.window_pos_embed_bkg_spatial_size",
     "backbone_config.window_positional_embedding_background_size"},
    {"image_encoder.neck.d_model", "fpn_hidden_size"},
    {"image_encoder.neck.fpn_top_down_levels", "fpn_top_down_levels"},
};
// The side that counts for transformers is that of the prompts; it never reads the backbone's.
constexpr KeyRow kHuggingFaceSide[] = {
    {"image_encoder.trunk.image_size", "prompt_encoder_config.image_size"},
    {"image_encoder.trunk.image_size", "image_size"},
    {"image_encoder.rep_vit.image_size", "prompt_encoder_config.image_size"},
    {"image_encoder.rep_vit.image_size", "image_size"},
};

std::vector<std::int64_t> stage_widths(const sam2::ImageEncoderConfig& encoder) {
  std::vector<std::int64_t> widths = channel_list(encoder);
  std::reverse(widths.begin(), widths.end());
  return widths;
}

// transformers has timm make RepViT, by the name of its sizes, which the tensors tell.
template <class Io>
void rep_vit_settings(Io& io, sam2::Sam2Config& config) {
  const std::string model = io.kind().vision + std::string("backbone_config.model_args.");
  std::vector<std::int64_t> stages;
  for (std::int64_t i = 0; i < config.image_encoder.num_stages(); ++i) stages.push_back(i);
  io.check(config);
  io.require(model + "features_only", true);
  io.require(model + "out_indices", stages);
}

template <class Io>
void hiera_settings(Io& io, sam2::Sam2Config& config) {
  sam2::ImageEncoderConfig& encoder = config.image_encoder;
  sam2::HieraConfig& t = encoder.trunk;
  const std::string b = io.kind().vision + std::string("backbone_config.");
  const std::string heads = "num_attention_heads_per_stage";
  std::vector<std::int64_t> stage_heads = t.stage_heads();
  io.value(b + heads, stage_heads);
  if (!stage_heads.empty()) t.num_heads = stage_heads.front();
  io.check(config);
  io.require(b + "embed_dim_per_stage", stage_widths(encoder));
  io.require(b + heads, t.stage_heads());
  const auto require_square = [&](const char* key, std::int64_t side) {
    io.require(b + key, std::array{side, side});
  };
  require_square("patch_kernel_size", 7);
  require_square("patch_stride", sam2::HieraConfig::kPatchStride);
  require_square("patch_padding", 3);
  require_square("query_stride", 2);
  io.require(b + "hidden_act", "gelu");
  io.require_epsilon(b + "layer_norm_eps", 1e-6);
}

// Of Hiera, before others are computed of them.
template <class Io>
void hiera_sizes(Io& io, const sam2::HieraConfig& t) {
  const std::string b = io.kind().vision + std::string("backbone_config."), trunk = kTrunk;
  io.expect(b + "hidden_size", t.embed_dim, trunk + "patch_embed.proj.weight");
  io.expect(b + "blocks_per_stage", t.stages, trunk + "blocks");
  io.expect(b + "window_positional_embedding_background_size", t.window_pos_embed_bkg_spatial_size,
            trunk + "pos_embed");
}

template <class Io>
void folder_settings(Io& io, sam2::Sam2Config& config) {
  sam2::ImageEncoderConfig& encoder = config.image_encoder;
  const std::string v = io.kind().vision, neck = std::string(kNeck) + "convs";
  if (!encoder.rep_vit) hiera_sizes(io, encoder.trunk);
  io.expect(v + "fpn_hidden_size", encoder.neck.d_model, neck);
  io.expect(v + "backbone_channel_list", encoder.neck.backbone_channel_list, neck);
  io.fields(config, kHuggingFaceVision, v);
  io.fields(config, kHuggingFaceSide, io.kind().heads);
  if (encoder.rep_vit) {
    rep_vit_settings(io, config);
  } else {
    hiera_settings(io, config);
  }
  encoder.neck.backbone_channel_list = channel_list(encoder);
  io.require(v + "fpn_kernel_size", 1);
  io.require(v + "fpn_stride", 1);
  io.require(v + "fpn_padding", 0);
  io.require(v + "num_feature_levels", encoder.num_levels());
}

bool is_edge_tam(const HuggingFaceClass& kind) { return kind.model_type.starts_with("edgetam"); }

sam2::Sam2Config config_from_folder(const FolderReader& folder, const StateDict& state_dict) {
  const sam2::ImageEncoderConfig told = config_from_shapes(state_dict);
  if (told.rep_vit.has_value() != is_edge_tam(folder.kind())) {
    fail<CheckpointError>("config.json: model_type",
                          told.rep_vit ? "a class of EdgeTAM, as the tensors are"
                                       : "a class of SAM 2, as the tensors are",
                          quoted(folder.kind().model_type));
  }
  sam2::Sam2Config config;
  sam2::ImageEncoderConfig& encoder = config.image_encoder;
  encoder = release_of_shapes(told).value_or(encoder);
  encoder.rep_vit = told.rep_vit;
  encoder.trunk.embed_dim = told.trunk.embed_dim;
  encoder.trunk.stages = told.trunk.stages;
  encoder.trunk.window_pos_embed_bkg_spatial_size = told.trunk.window_pos_embed_bkg_spatial_size;
  encoder.neck.d_model = told.neck.d_model;
  encoder.neck.backbone_channel_list = told.neck.backbone_channel_list;
  folder_settings(folder, config);
  check_fits(encoder, FolderReader::kWhere);
  return config;
}

// ---------------------------------------------------------------- decoder and memory

// All but the settings of a folder is in the tensors.
void read_sam2_heads(const StateDict& state_dict, const std::optional<FolderReader>& folder,
                     sam2::Sam2Config& config) {
  sam2::HeadsConfig& heads = config.heads;
  const HeadsNames names{.prefix = "",
                         .memory_attention = "memory_attention.",
                         .memory_encoder = "memory_encoder.",
                         .first_linear = "mlp.layers.0."};
  read_heads(state_dict, names, heads);
  if (!state_dict.metadata.contains("config")) {
    check_released_heads(heads, names, state_dict.source);
  }
  heads.memory_encoder.total_stride = heads.base.backbone_stride;
  heads.base.no_obj_embed_spatial = state_dict.contains("no_obj_embed_spatial");
  heads.base.add_tpos_enc_to_obj_ptrs = state_dict.contains("obj_ptr_tpos_proj.weight");
  heads.memory_bank.use_signed_tpos_enc_to_obj_ptrs = heads.base.add_tpos_enc_to_obj_ptrs;
  config.set_image_size(config.image_encoder.image_size());
  if (folder) read_heads_settings(*folder, heads);

  const sam2::ImageEncoderConfig& encoder = config.image_encoder;
  // The decoder takes three maps, each half as large as the one before.
  const bool three_levels = encoder.num_levels() == 3 &&
                            encoder.stage_grid(2) == heads.base.grid() &&
                            !encoder.neck.top_down(0) && !encoder.neck.top_down(1);
  visit_fields(config, CheckFields{state_dict.source});
  if (!three_levels || !heads_fit(heads, encoder.neck.d_model)) {
    fail<CheckpointError>(state_dict.source, "decoder and memory of sizes as in SAM 2",
                          sizes_text_of(config));
  }
}

sam2::Sam2Config config_without_folder(const StateDict& state_dict) {
  const std::optional<ConfigReader> reader = config_in(state_dict, kFileNames);
  return reader ? config_from_file(*reader, variant_in(state_dict), rep_vit_of(state_dict))
                : config_from_tensors(state_dict);
}

// The architecture has the sizes of the release; timm takes others as arguments.
void write_rep_vit(FolderWriter& folder, const trunks::RepVitConfig& trunk) {
  if (trunk.fused) {
    fail<UnsupportedError>("folders of transformers", "batch norms as in Meta's file",
                           "batch norms that are a part of the convolutions");
  }
  const std::string backbone = folder.kind().vision + std::string("backbone_config.");
  folder.value(backbone + "model_type", "timm_wrapper");
  folder.value(backbone + "architecture", "repvit_m1");
  folder.value(backbone + "num_classes", 2);  // it does not read a config without
  const trunks::RepVitConfig known;
  if (trunk.embed_dim == known.embed_dim && trunk.depth == known.depth &&
      trunk.mlp_ratio == known.mlp_ratio) {
    return;
  }
  folder.value(backbone + "model_args.embed_dim", trunk.embed_dim);
  folder.value(backbone + "model_args.depth", trunk.depth);
  folder.value(backbone + "model_args.mlp_ratio", trunk.mlp_ratio);
}

}  // namespace

Json sam2_folder_config(sam2::Sam2Config config) {
  if (config.heads.mask_decoder.hq) {
    fail<UnsupportedError>("a folder of transformers", "a mask decoder that its Sam2Model has",
                           "an HQ token (HQ-SAM 2)");
  }
  const sam2::ImageEncoderConfig& encoder = config.image_encoder;
  const std::string name = encoder.rep_vit ? "edgetam" : "sam2";
  FolderWriter folder(name + (config.heads.memory ? "_video" : ""));
  const std::string vision = folder.kind().vision;
  folder.value(vision + "model_type", name + "_vision_model");
  if (encoder.rep_vit) {
    write_rep_vit(folder, *encoder.rep_vit);
  } else {
    folder.value(vision + "backbone_config.model_type", "sam2_hiera_det_model");
  }
  folder_settings(folder, config);
  write_heads_settings(folder, config.heads);
  return folder.json();
}

sam2::Sam2Config sam2_config_of(const StateDict& state_dict,
                                const std::optional<std::string>& variant) {
  const std::optional<FolderReader> folder = FolderReader::in(state_dict, "sam2");
  sam2::Sam2Config found =
      folder ? config_from_folder(*folder, state_dict) : config_without_folder(state_dict);
  read_sam2_heads(state_dict, folder, found);
  if (folder || !state_dict.metadata.contains("variant")) found.variant = released_name(found);
  read_preprocessor(
      state_dict,
      {.mean = found.pixel_mean, .std = found.pixel_std, .side = found.heads.base.image_size});
  // Only the memory tells the version.
  found.version = found.image_encoder.rep_vit             ? "1.0"
                  : !found.heads.memory                   ? "2"
                  : found.heads.base.no_obj_embed_spatial ? "2.1"
                                                          : "2.0";
  if (!variant || *variant == found.variant) return found;
  const sam2::ReleasedSizes& asked = release_named(sam2::releases(), *variant).sizes;
  const std::string file = " (the file is " + printable(found.variant) + ")";
  if (asked.hq != found.heads.mask_decoder.hq) {
    const auto told = [](bool has) { return has ? "HQ-SAM 2's" : "SAM 2's, without the HQ token"; };
    fail<CheckpointError>("variant " + *variant + ": sam_mask_decoder", told(asked.hq),
                          told(!asked.hq) + file);
  }
  fail<CheckpointError>("variant " + *variant + ": " + kTrunk + "blocks",
                        trunk_text(asked.image_encoder), trunk_text(found.image_encoder) + file);
}

}  // namespace sam_rlx
