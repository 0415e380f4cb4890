#include "loading/sam2/config.h"

#include <algorithm>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"
#include "loading/hugging_face_config.h"
#include "loading/preprocessor.h"
#include "loading/sam2/heads_config.h"
#include "loading/sizes_text.h"

namespace sam_rlx {
namespace {

constexpr const char* kReleased[] = {"hiera_t", "hiera_s", "hiera_b+", "hiera_l"};
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

bool neck_fits(const sam2::ImageEncoderConfig& c) {
  const std::int64_t levels = c.trunk.num_stages();
  const auto& channels = c.neck.backbone_channel_list;
  if (static_cast<std::int64_t>(channels.size()) != levels || c.neck.d_model % 4 != 0 ||
      c.scalp >= levels) {
    return false;
  }
  for (std::int64_t level = 0; level < levels; ++level) {
    const std::int64_t width = channels[static_cast<std::size_t>(levels - 1 - level)];
    const bool upsamples = c.neck.top_down(level) && level + 1 < levels;
    if (width != c.trunk.stage_width(level) ||
        (upsamples && c.trunk.stage_grid(level) != 2 * c.trunk.stage_grid(level + 1))) {
      return false;
    }
  }
  return true;
}

// Widths of the stages, coarsest first.
std::vector<std::int64_t> channel_list(const sam2::HieraConfig& trunk) {
  std::vector<std::int64_t> channels;
  for (std::int64_t i = trunk.num_stages() - 1; i >= 0 && i < 8; --i) {
    channels.push_back(trunk.stage_width(i));
  }
  return channels;
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

sam2::Sam2Config config_from_file(const ConfigReader& reader, const std::string& variant) {
  sam2::Sam2Config config;
  config.variant = variant;
  sam2::HieraConfig& trunk = config.image_encoder.trunk;
  trunk.q_pool = -1;
  visit_fields(config, reader);
  if (trunk.q_pool < 0) trunk.q_pool = trunk.num_stages() - 1;
  config.image_encoder.neck.backbone_channel_list = channel_list(trunk);
  if (!trunk_fits(trunk) || !neck_fits(config.image_encoder)) {
    fail<CheckpointError>(ConfigReader::kWhere, "sizes that divide each other as in SAM 2",
                          sizes_text_of(config.image_encoder));
  }
  return config;
}

// ---------------------------------------------------------------- tensors

// What the tensors of the trunk and the neck tell; the rest is the default.
sam2::ImageEncoderConfig config_from_shapes(const StateDict& state_dict) {
  const std::string trunk_name = kTrunk, neck_name = kNeck;
  sam2::ImageEncoderConfig config;
  sam2::HieraConfig& trunk = config.trunk;
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
  return a.trunk.embed_dim == b.trunk.embed_dim && a.trunk.stages == b.trunk.stages &&
         a.trunk.window_spec.front() == b.trunk.window_spec.front() &&
         a.trunk.window_pos_embed_bkg_spatial_size == b.trunk.window_pos_embed_bkg_spatial_size &&
         a.neck.d_model == b.neck.d_model &&
         a.neck.backbone_channel_list == b.neck.backbone_channel_list;
}

// The release that has these sizes at any image size, else "custom".
std::string released_name(const sam2::ImageEncoderConfig& found) {
  for (const char* const name : kReleased) {
    sam2::ImageEncoderConfig known = sam2::released_image_encoder(name);
    known.trunk.image_size = found.trunk.image_size;
    if (found.trunk == known.trunk && found.neck == known.neck && found.scalp == known.scalp) {
      return name;
    }
  }
  return "custom";
}

// The image encoder of the release with these shapes, if there is one.
std::optional<sam2::ImageEncoderConfig> release_of_shapes(const sam2::ImageEncoderConfig& found) {
  for (const char* const name : kReleased) {
    const sam2::ImageEncoderConfig known = sam2::released_image_encoder(name);
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

sam2::Sam2Config config_from_tensors(const StateDict& state_dict) {
  const sam2::ImageEncoderConfig found = config_from_shapes(state_dict);
  if (const auto known = release_of_shapes(found)) {
    sam2::Sam2Config config;
    config.image_encoder = *known;
    return config;
  }
  fail<CheckpointError>(state_dict.source,
                        "the sizes of a released SAM 2, or a config in the metadata",
                        "width " + std::to_string(found.trunk.embed_dim) + ", blocks per stage " +
                            list_text(found.trunk.stages));
}

// ---------------------------------------------------------------- config.json

// transformers' Sam2VisionConfig.
constexpr KeyRow kHuggingFaceVision[] = {
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
};

std::vector<std::int64_t> stage_widths(const sam2::HieraConfig& trunk) {
  std::vector<std::int64_t> widths = channel_list(trunk);
  std::reverse(widths.begin(), widths.end());
  return widths;
}

// What the tensors tell, too.
void compare(HuggingFaceConfig& folder, const sam2::ImageEncoderConfig& told) {
  const std::string v = folder.kind().vision, b = v + "backbone_config.", trunk = kTrunk;
  const auto list = [](const auto& values) {
    Json::Array result;
    for (const std::int64_t value : values) result.emplace_back(value);
    return Json(std::move(result));
  };
  folder.expect(b + "hidden_size", told.trunk.embed_dim, trunk + "patch_embed.proj.weight");
  folder.expect(b + "blocks_per_stage", list(told.trunk.stages), trunk + "blocks");
  folder.expect(b + "window_positional_embedding_background_size",
                list(told.trunk.window_pos_embed_bkg_spatial_size), trunk + "pos_embed");
  folder.expect(v + "fpn_hidden_size", told.neck.d_model, std::string(kNeck) + "convs");
  folder.expect(v + "backbone_channel_list", list(told.neck.backbone_channel_list),
                std::string(kNeck) + "convs");
}

// What has one value here.
void check_fixed(HuggingFaceConfig& folder, const sam2::ImageEncoderConfig& c) {
  const std::string v = folder.kind().vision, b = v + "backbone_config.";
  folder.require(b + "embed_dim_per_stage", stage_widths(c.trunk));
  folder.require(b + "num_attention_heads_per_stage", c.trunk.stage_heads());
  const auto require_square = [&](const char* key, std::int64_t side) {
    folder.require(b + key, std::vector<std::int64_t>{side, side});
  };
  require_square("patch_kernel_size", 7);
  require_square("patch_stride", sam2::HieraConfig::kPatchStride);
  require_square("patch_padding", 3);
  require_square("query_stride", 2);
  folder.require(b + "hidden_act", "gelu");
  folder.require_epsilon(b + "layer_norm_eps", 1e-6);
  folder.require(v + "fpn_kernel_size", 1);
  folder.require(v + "fpn_stride", 1);
  folder.require(v + "fpn_padding", std::int64_t{0});
  folder.require(v + "num_feature_levels", c.num_levels());
}

sam2::Sam2Config config_from_folder(HuggingFaceConfig& folder, const StateDict& state_dict) {
  const sam2::ImageEncoderConfig told = config_from_shapes(state_dict);
  compare(folder, told);
  sam2::Sam2Config config;
  sam2::ImageEncoderConfig& encoder = config.image_encoder;
  encoder = release_of_shapes(told).value_or(encoder);
  encoder.trunk.embed_dim = told.trunk.embed_dim;
  encoder.trunk.stages = told.trunk.stages;
  encoder.neck.d_model = told.neck.d_model;
  folder.read(config, kHuggingFaceVision, folder.kind().vision);
  folder.read(config, kHuggingFaceSide, folder.kind().heads);
  std::vector<std::int64_t> heads = encoder.trunk.stage_heads();
  folder.read(folder.kind().vision + std::string("backbone_config.num_attention_heads_per_stage"),
              heads);
  if (!heads.empty()) encoder.trunk.num_heads = heads.front();
  visit_fields(config, CheckFields{HuggingFaceConfig::kWhere});
  encoder.neck.backbone_channel_list = channel_list(encoder.trunk);
  check_fixed(folder, encoder);
  if (!trunk_fits(encoder.trunk) || !neck_fits(encoder)) {
    fail<CheckpointError>(HuggingFaceConfig::kWhere, "sizes that divide each other as in SAM 2",
                          sizes_text_of(encoder));
  }
  config.variant = released_name(encoder);
  read_heads_settings(folder, config.heads);
  return config;
}

// ---------------------------------------------------------------- decoder and memory

// All but the heads of the decoder, which the caller has set, is in the tensors.
void read_sam2_heads(const StateDict& state_dict, bool has_config, sam2::Sam2Config& config) {
  sam2::HeadsConfig& heads = config.heads;
  const HeadsNames names{.prefix = "",
                         .memory_attention = "memory_attention.",
                         .memory_encoder = "memory_encoder.",
                         .first_linear = "mlp.layers.0."};
  read_heads(state_dict, names, heads);
  if (!has_config) check_released_heads(heads, names, state_dict.source);
  heads.memory_encoder.total_stride = heads.base.backbone_stride;
  heads.base.no_obj_embed_spatial = state_dict.contains("no_obj_embed_spatial");
  heads.base.add_tpos_enc_to_obj_ptrs = state_dict.contains("obj_ptr_tpos_proj.weight");
  heads.memory_bank.use_signed_tpos_enc_to_obj_ptrs = heads.base.add_tpos_enc_to_obj_ptrs;
  config.set_image_size(config.image_encoder.trunk.image_size);

  const sam2::ImageEncoderConfig& encoder = config.image_encoder;
  // The decoder takes three maps, each half as large as the one before.
  const bool three_levels = encoder.num_levels() == 3 &&
                            encoder.trunk.stage_grid(2) == heads.base.grid() &&
                            !encoder.neck.top_down(0) && !encoder.neck.top_down(1);
  visit_fields(config, CheckFields{state_dict.source});
  if (!three_levels || !heads_fit(heads, encoder.neck.d_model)) {
    fail<CheckpointError>(state_dict.source, "decoder and memory of sizes as in SAM 2",
                          sizes_text_of(config));
  }
}

sam2::Sam2Config config_without_folder(const StateDict& state_dict) {
  const std::optional<ConfigReader> reader = config_in(state_dict, kFileNames);
  return reader ? config_from_file(*reader, variant_in(state_dict))
                : config_from_tensors(state_dict);
}

}  // namespace

HuggingFaceConfig sam2_folder_config(const sam2::Sam2Config& config) {
  HuggingFaceConfig folder(config.heads.memory ? "sam2_video" : "sam2");
  const std::string vision = folder.kind().vision;
  folder.set(vision + "model_type", Json(std::string("sam2_vision_model")));
  folder.set(vision + "backbone_config.model_type", Json(std::string("sam2_hiera_det_model")));
  folder.write(config, kHuggingFaceVision, vision);
  folder.write(config, kHuggingFaceSide, folder.kind().heads);
  compare(folder, config.image_encoder);
  check_fixed(folder, config.image_encoder);
  write_heads_settings(folder, config.heads);
  return folder;
}

sam2::Sam2Config sam2_config_of(const StateDict& state_dict,
                                const std::optional<std::string>& variant) {
  std::optional<HuggingFaceConfig> folder = HuggingFaceConfig::in(state_dict, "sam2");
  sam2::Sam2Config found =
      folder ? config_from_folder(*folder, state_dict) : config_without_folder(state_dict);
  if (!state_dict.metadata.contains("variant")) found.variant = released_name(found.image_encoder);
  read_sam2_heads(state_dict, state_dict.metadata.contains("config"), found);
  if (folder) check_heads_settings(*folder, found.heads);
  read_preprocessor(
      state_dict,
      {.mean = found.pixel_mean, .std = found.pixel_std, .side = found.heads.base.image_size});
  // Only the memory tells the version.
  found.version = !found.heads.memory ? "2" : found.heads.base.no_obj_embed_spatial ? "2.1" : "2.0";
  if (!variant || *variant == found.variant) return found;
  const sam2::HieraConfig asked = sam2::released_image_encoder(*variant).trunk;
  fail<CheckpointError>(
      "variant " + *variant + ": " + kTrunk + "blocks",
      "width " + std::to_string(asked.embed_dim) + ", blocks per stage " + list_text(asked.stages),
      "width " + std::to_string(found.image_encoder.trunk.embed_dim) + ", blocks per stage " +
          list_text(found.image_encoder.trunk.stages) + " (the file is " +
          printable(found.variant) + ")");
}

}  // namespace sam_rlx
