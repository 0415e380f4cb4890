#include "loading/sam/config.h"

#include <algorithm>
#include <utility>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"
#include "loading/hugging_face_config.h"
#include "loading/preprocessor.h"
#include "loading/releases.h"
#include "loading/sizes_text.h"
#include "loading/trunks.h"

namespace sam_rlx {
namespace {

// Files of this project's training have all fields on one level, with upstream's names.
constexpr KeyRow kFileNames[] = {
    {"prompt_encoder.embed_dim", "prompt_embed_dim"},
    {"mask_decoder.transformer.", "decoder_"},
};

// transformers' SamConfig.
constexpr KeyRow kHuggingFaceVision[] = {
    {"image_encoder.img_size", "image_size"},
    {"image_encoder.patch_size", "patch_size"},
    {"image_encoder.in_chans", "num_channels"},
    {"image_encoder.embed_dim", "hidden_size"},
    {"image_encoder.depth", "num_hidden_layers"},
    {"image_encoder.num_heads", "num_attention_heads"},
    {"image_encoder.mlp_dim", "mlp_dim"},
    {"image_encoder.out_chans", "output_channels"},
    {"image_encoder.window_size", "window_size"},
    {"image_encoder.global_attn_indexes", "global_attn_indexes"},
};
constexpr KeyRow kHuggingFaceHeads[] = {
    {"prompt_encoder.embed_dim", "prompt_encoder_config.hidden_size"},
    {"prompt_encoder.mask_in_chans", "prompt_encoder_config.mask_input_channels"},
    {"mask_decoder.transformer.depth", "mask_decoder_config.num_hidden_layers"},
    {"mask_decoder.transformer.embedding_dim", "mask_decoder_config.hidden_size"},
    {"mask_decoder.transformer.num_heads", "mask_decoder_config.num_attention_heads"},
    {"mask_decoder.transformer.mlp_dim", "mask_decoder_config.mlp_dim"},
    {"mask_decoder.transformer.attention_downsample_rate",
     "mask_decoder_config.attention_downsample_rate"},
    {"mask_decoder.num_multimask_outputs", "mask_decoder_config.num_multimask_outputs"},
    {"mask_decoder.iou_head_depth", "mask_decoder_config.iou_head_depth"},
    {"mask_decoder.iou_head_hidden_dim", "mask_decoder_config.iou_head_hidden_dim"},
    {"mask_decoder.hq.vit_dim", "mask_decoder_config.vit_dim"},
};

constexpr const char* kIouLayers = "mask_decoder.iou_prediction_head.layers.";
constexpr const char* kHqConvolution = "mask_decoder.compress_vit_feat.0.weight";
// Any of these tells SAM-HQ, so that a file with some of them is told what it lacks.
constexpr std::string_view kHqParts[] = {
    "mask_decoder.hf_token.",
    "mask_decoder.hf_mlp.",
    "mask_decoder.compress_vit_feat.",
    "mask_decoder.embedding_encoder.",
    "mask_decoder.embedding_maskfeature.",
};

// SAM-HQ's part of the decoder; a file that lacks its width gets that of the trunk.
std::optional<sam::HqConfig> read_hq(const StateDict& state_dict,
                                     const sam::ImageEncoderConfig& trunk) {
  const auto& tensors = state_dict.tensors();
  const bool has_any = std::any_of(tensors.begin(), tensors.end(), [](const TensorEntry& entry) {
    return std::any_of(std::begin(kHqParts), std::end(kHqParts),
                       [&](std::string_view part) { return entry.name.starts_with(part); });
  });
  if (!has_any) return std::nullopt;
  if (!state_dict.contains(kHqConvolution)) return sam::HqConfig{trunk.early_dim()};
  return sam::HqConfig{size_of(required_tensor(state_dict, kHqConvolution, 4), 0)};
}

// What follows from the encoder, and sizes that cannot work together: reported here, not as a crash
// later.
void finish(sam::SamConfig& config, const std::string& where) {
  const sam::ImageEncoderConfig& e = config.image_encoder;
  const sam::TwoWayTransformerConfig& t = config.mask_decoder.transformer;
  config.prompt_encoder.input_image_size = e.img_size;
  config.prompt_encoder.image_embedding_size = e.grid();
  visit_fields(config, CheckFields{where});
  const bool trunk_fits = e.tiny_vit ? e.tiny_vit->fits() && e.tiny_vit->stride() == e.patch_size
                                     : e.embed_dim % e.num_heads == 0;
  const bool divides = e.img_size % e.patch_size == 0 && trunk_fits && t.embedding_dim % 8 == 0 &&
                       t.embedding_dim / t.attention_downsample_rate % t.num_heads == 0;
  if (!divides || e.out_chans != config.prompt_encoder.embed_dim ||
      e.out_chans != t.embedding_dim || config.prompt_encoder.mask_in_chans % 4 != 0) {
    fail<CheckpointError>(where, "sizes that divide each other as in SAM", sizes_text_of(config));
  }
  const std::optional<sam::HqConfig>& hq = config.mask_decoder.hq;
  if (hq && hq->vit_dim != e.early_dim()) {
    fail<CheckpointError>(
        where + ": " + kHqConvolution,
        std::to_string(e.early_dim()) + " channels, as the trunk's early map has (0: it has none)",
        std::to_string(hq->vit_dim));
  }
}

sam::SamConfig config_from_file(const ConfigReader& reader, const StateDict& state_dict) {
  sam::SamConfig config;
  config.variant = variant_in(state_dict);
  sam::ImageEncoderConfig& e = config.image_encoder;
  config.prompt_encoder.embed_dim = 0;
  visit_fields(config, reader);
  if (config.prompt_encoder.embed_dim == 0) config.prompt_encoder.embed_dim = e.out_chans;
  e.table_size = e.img_size;
  double mlp_ratio = 0.0;
  reader(Field{.path = "mlp_ratio", .min = 0, .max = kMaxConfigSize}, mlp_ratio);
  const double mlp_dim = mlp_ratio * static_cast<double>(e.embed_dim);
  if (!(mlp_dim >= 1.0 && mlp_dim <= static_cast<double>(kMaxConfigSize))) {
    fail<CheckpointError>(std::string(ConfigReader::kWhere) + ".mlp_ratio",
                          "a ratio that gives a width", number_text(mlp_ratio));
  }
  e.mlp_dim = static_cast<std::int64_t>(mlp_dim);
  config.mask_decoder.transformer.embedding_dim = config.prompt_encoder.embed_dim;
  config.mask_decoder.hq = read_hq(state_dict, e);
  finish(config, ConfigReader::kWhere);
  return config;
}

// Side of the windows of a block: its table has 2 * side - 1 rows.
std::int64_t window_of(const StateDict& state_dict, std::int64_t block) {
  const std::string name = "image_encoder.blocks." + std::to_string(block) + ".attn.rel_pos_h";
  return (size_of(required_tensor(state_dict, name, 2), 0) + 1) / 2;
}

// A block whose window is the whole map is global; the others share one window size.
void read_windows(const StateDict& state_dict, sam::ImageEncoderConfig& e) {
  e.window_size = e.grid();
  for (std::int64_t i = 0; i < e.depth; ++i) {
    const std::int64_t window = window_of(state_dict, i);
    if (window == e.grid()) {
      e.global_attn_indexes.push_back(i);
    } else if (e.window_size == e.grid() || e.window_size == window) {
      e.window_size = window;
    } else {
      fail<CheckpointError>("image_encoder.blocks." + std::to_string(i) + ".attn.rel_pos_h",
                            "windows of " + std::to_string(e.window_size),
                            "windows of " + std::to_string(window));
    }
  }
}

std::string release_of(const sam::SamConfig& config) {
  const sam::ImageEncoderConfig& e = config.image_encoder;
  for (const auto& release : sam::releases()) {
    if (release.sizes.hq != config.mask_decoder.hq.has_value()) continue;
    const sam::ImageEncoderConfig& known = release.sizes.image_encoder;
    const bool same_vit = known.embed_dim == e.embed_dim && known.depth == e.depth &&
                          known.num_heads == e.num_heads && known.window_size == e.window_size &&
                          known.global_attn_indexes == e.global_attn_indexes;
    if (known.tiny_vit == e.tiny_vit && (e.tiny_vit || same_vit)) {
      return std::string(release.variant);
    }
  }
  return "custom";
}

// A release has its width alone: a file of that width with other blocks lacks some.
void check_blocks(const sam::SamConfig& config, const std::string& source) {
  const sam::ImageEncoderConfig& e = config.image_encoder;
  for (const auto& release : sam::releases()) {
    if (release.sizes.hq != config.mask_decoder.hq.has_value()) continue;
    const sam::ImageEncoderConfig& known = release.sizes.image_encoder;
    if (known.tiny_vit && e.tiny_vit && known.tiny_vit->embed_dims == e.tiny_vit->embed_dims &&
        known.tiny_vit->depths != e.tiny_vit->depths) {
      fail<CheckpointError>(source + ": image_encoder.layers",
                            "blocks " + dims_text(known.tiny_vit->depths) + ", as " +
                                std::string(release.variant) + " has at these widths",
                            dims_text(e.tiny_vit->depths));
    }
    if (known.tiny_vit || e.tiny_vit || known.embed_dim != e.embed_dim || known.depth == e.depth) {
      continue;
    }
    fail<CheckpointError>(source + ": image_encoder.blocks",
                          std::to_string(known.depth) + " blocks, as " +
                              std::string(release.variant) + " has at width " +
                              std::to_string(e.embed_dim),
                          std::to_string(e.depth) + " blocks");
  }
}

// All sizes are in the tensors, the number of heads too: relative positions are as wide as a head.
void read_encoder(const StateDict& state_dict, sam::ImageEncoderConfig& e) {
  const TensorEntry& table = required_tensor(state_dict, "image_encoder.pos_embed", 4);
  const TensorEntry& patch =
      required_tensor(state_dict, "image_encoder.patch_embed.proj.weight", 4);
  e.embed_dim = size_of(patch, 0);
  e.patch_size = size_of(patch, 3);
  e.img_size = e.table_size = size_of(table, 1) * e.patch_size;
  e.depth = 0;
  while (state_dict.contains("image_encoder.blocks." + std::to_string(e.depth) + ".norm1.weight")) {
    ++e.depth;
  }
  const std::string block = "image_encoder.blocks.0.";
  const std::int64_t head = size_of(required_tensor(state_dict, block + "attn.rel_pos_h", 2), 1);
  e.num_heads = std::max<std::int64_t>(1, e.embed_dim / head);
  e.mlp_dim = size_of(required_tensor(state_dict, block + "mlp.lin1.weight", 2), 0);
  e.out_chans = size_of(required_tensor(state_dict, "image_encoder.neck.0.weight", 4), 0);
  read_windows(state_dict, e);
}

constexpr const char* kTinyViTPatch = "image_encoder.patch_embed.seq.0.c.weight";

bool is_lite_med_sam(const trunks::TinyViTConfig& trunk) { return trunk.patch_kernel == 1; }

// Of the input LiteMedSAM has another side.
void read_tiny_vit(const StateDict& state_dict, sam::ImageEncoderConfig& e) {
  e.tiny_vit = tiny_vit_of(state_dict, "image_encoder.");
  e.img_size = is_lite_med_sam(*e.tiny_vit) ? 256 : 1024;
  e.patch_size = e.tiny_vit->stride();
  e.out_chans = size_of(required_tensor(state_dict, "image_encoder.neck.0.weight", 4), 0);
}

// The decoder has 8 heads in every release.
void read_decoder(const StateDict& state_dict, sam::SamConfig& config) {
  sam::PromptEncoderConfig& p = config.prompt_encoder;
  p.embed_dim = config.image_encoder.out_chans;
  p.mask_in_chans =
      size_of(required_tensor(state_dict, "prompt_encoder.mask_downscaling.3.weight", 4), 0);
  sam::MaskDecoderConfig& d = config.mask_decoder;
  d.transformer.embedding_dim = p.embed_dim;
  d.transformer.mlp_dim = size_of(
      required_tensor(state_dict, "mask_decoder.transformer.layers.0.mlp.lin1.weight", 2), 0);
  d.iou_head_hidden_dim = size_of(
      required_tensor(state_dict, "mask_decoder.iou_prediction_head.layers.0.weight", 2), 0);
  d.hq = read_hq(state_dict, config.image_encoder);
}

sam::SamConfig sizes_of(const StateDict& state_dict) {
  sam::SamConfig config;
  const bool tiny_vit = state_dict.contains(kTinyViTPatch);
  (tiny_vit ? read_tiny_vit : read_encoder)(state_dict, config.image_encoder);
  // LiteMedSAM takes pixels of 0 to 1.
  const auto& trunk = config.image_encoder.tiny_vit;
  if (trunk && is_lite_med_sam(*trunk)) {
    config.pixel_mean.fill(0.0F);
    config.pixel_std.fill(255.0F);
  }
  read_decoder(state_dict, config);
  config.variant = release_of(config);
  finish(config, state_dict.source);
  return config;
}

// Meta's checkpoints carry no config.
sam::SamConfig config_from_tensors(const StateDict& state_dict) {
  sam::SamConfig config = sizes_of(state_dict);
  check_blocks(config, state_dict.source);
  return config;
}

// Parts of the encoder that are always there.
template <class Io>
void part_settings(Io& io) {
  for (const char* const flag : {"qkv_bias", "use_abs_pos", "use_rel_pos"}) {
    io.require(io.kind().vision + std::string(flag), true);
  }
}

template <class Io>
void folder_settings(Io& io, sam::SamConfig& config) {
  const std::string v = io.kind().vision, h = io.kind().heads;
  const sam::ImageEncoderConfig& e = config.image_encoder;
  const std::string patch = "image_encoder.patch_embed.proj.weight", block = "image_encoder.blocks";
  io.expect(v + "hidden_size", e.embed_dim, patch);
  io.expect(v + "patch_size", e.patch_size, patch);
  io.expect(v + "image_size", e.img_size, "image_encoder.pos_embed");
  io.expect(v + "num_hidden_layers", e.depth, block);
  io.expect(v + "num_attention_heads", e.num_heads, block + ".0.attn.rel_pos_h");
  io.expect(v + "mlp_dim", e.mlp_dim, block + ".0.mlp.lin1.weight");
  io.expect(v + "output_channels", e.out_chans, "image_encoder.neck.0.weight");
  io.expect(v + "num_pos_feats", config.prompt_encoder.embed_dim / 2,
            "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix");
  io.expect(h + "prompt_encoder_config.hidden_size", e.out_chans, "image_encoder.neck.0.weight");
  io.expect(h + "mask_decoder_config.hidden_size", e.out_chans, "image_encoder.neck.0.weight");
  io.expect(h + "prompt_encoder_config.mask_input_channels", config.prompt_encoder.mask_in_chans,
            "prompt_encoder.mask_downscaling.3.weight");
  io.expect(h + "mask_decoder_config.mlp_dim", config.mask_decoder.transformer.mlp_dim,
            "mask_decoder.transformer.layers.0.mlp.lin1.weight");
  io.expect(h + "mask_decoder_config.iou_head_depth", config.mask_decoder.iou_head_depth,
            kIouLayers);
  io.expect(h + "mask_decoder_config.iou_head_hidden_dim", config.mask_decoder.iou_head_hidden_dim,
            "mask_decoder.iou_prediction_head.layers.0.weight");
  if (const auto& hq = config.mask_decoder.hq) {
    io.expect(h + "mask_decoder_config.vit_dim", hq->vit_dim, kHqConvolution);
  }
  io.fields(config, kHuggingFaceVision, v);
  io.fields(config, kHuggingFaceHeads, h);
  part_settings(io);
  io.require(v + "hidden_act", "gelu");
  io.require(h + "prompt_encoder_config.image_size", e.img_size);
  io.require(h + "prompt_encoder_config.patch_size", e.patch_size);
  io.require(h + "prompt_encoder_config.num_point_embeddings", 4);
  io.require(h + "prompt_encoder_config.hidden_act", "gelu");
  io.require(h + "mask_decoder_config.hidden_act", "relu");
  io.require_epsilon(v + "layer_norm_eps", 1e-6);
  io.require_epsilon(h + "prompt_encoder_config.layer_norm_eps", 1e-6);
  io.require_epsilon(h + "mask_decoder_config.layer_norm_eps", 1e-5);
}

// The class of transformers for a model.
std::string_view folder_class(const sam::SamConfig& config) {
  return config.mask_decoder.hq ? "sam_hq" : "sam";
}

sam::SamConfig config_from_folder(const FolderReader& folder, const StateDict& state_dict) {
  part_settings(folder);
  sam::SamConfig config = sizes_of(state_dict);
  folder.expect("model_type", folder_class(config), "mask_decoder");
  config.mask_decoder.iou_head_depth = count_of(state_dict, kIouLayers, ".weight");
  folder_settings(folder, config);
  config.variant = release_of(config);
  finish(config, FolderReader::kWhere);
  return config;
}

sam::SamConfig found_config(const StateDict& state_dict) {
  if (const auto folder = FolderReader::in(state_dict, "sam")) {
    return config_from_folder(*folder, state_dict);
  }
  const std::optional<ConfigReader> reader = config_in(state_dict, kFileNames);
  return reader ? config_from_file(*reader, state_dict) : config_from_tensors(state_dict);
}

}  // namespace

Json sam_folder_config(sam::SamConfig config) {
  if (config.image_encoder.tiny_vit) {
    fail<UnsupportedError>("a folder of transformers", "a trunk that its SamModel has",
                           "TinyViT (MobileSAM)");
  }
  FolderWriter folder(folder_class(config));
  folder_settings(folder, config);
  return folder.json();
}

sam::SamConfig sam_config_of(const StateDict& state_dict,
                             const std::optional<std::string>& variant) {
  sam::SamConfig found = found_config(state_dict);
  read_preprocessor(state_dict, {.mean = found.pixel_mean,
                                 .std = found.pixel_std,
                                 .scale = 255.0,
                                 .side = found.image_encoder.img_size});
  if (!variant || *variant == found.variant) return found;
  const sam::ReleasedSizes& asked = release_named(sam::releases(), *variant).sizes;
  const std::string file = " (the file is " + printable(found.variant) + ")";
  const bool hq = found.mask_decoder.hq.has_value();
  if (asked.hq != hq) {
    const auto told = [](bool has) { return has ? "SAM-HQ's" : "SAM's, without the HQ token"; };
    fail<CheckpointError>("variant " + *variant + ": mask_decoder", told(asked.hq),
                          told(hq) + file);
  }
  const auto told = [](const sam::ImageEncoderConfig& e) {
    return e.tiny_vit ? "TinyViT of widths " + dims_text(e.tiny_vit->embed_dims)
                      : "width " + std::to_string(e.embed_dim);
  };
  fail<CheckpointError>(
      "variant " + *variant + ": " +
          (found.image_encoder.tiny_vit ? kTinyViTPatch : "image_encoder.patch_embed.proj.weight"),
      told(asked.image_encoder), told(found.image_encoder) + file);
}

}  // namespace sam_rlx
