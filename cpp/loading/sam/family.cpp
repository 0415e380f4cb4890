#include "loading/family.h"

#include "loading/sam/config.h"

namespace sam_rlx {
namespace {

constexpr Sign kSigns[] = {
    {"image_encoder.blocks.0.attn.rel_pos_h", Dialect::kMeta},
    {"image_encoder.patch_embed.seq.0.c.weight", Dialect::kMeta},
    {"vision_encoder.layers.0.attn.qkv.", Dialect::kHuggingFace},
};

constexpr std::string_view kDecoders[] = {"mask_decoder.", "prompt_encoder."};

// From transformers' SamModel and SamHQModel. Names that no row fits are the same in both.
constexpr KeyRow kSamRows[] = {
    {"vision_encoder.pos_embed", "image_encoder.pos_embed"},
    {"vision_encoder.patch_embed.projection.", "image_encoder.patch_embed.proj."},
    {"vision_encoder.layers.{i}.layer_norm1.", "image_encoder.blocks.{i}.norm1."},
    {"vision_encoder.layers.{i}.layer_norm2.", "image_encoder.blocks.{i}.norm2."},
    {"vision_encoder.layers.{i}.", "image_encoder.blocks.{i}."},
    {"vision_encoder.neck.conv1.", "image_encoder.neck.0."},
    {"vision_encoder.neck.layer_norm1.", "image_encoder.neck.1."},
    {"vision_encoder.neck.conv2.", "image_encoder.neck.2."},
    {"vision_encoder.neck.layer_norm2.", "image_encoder.neck.3."},
    {"prompt_encoder.shared_embedding.positional_embedding",
     "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"prompt_encoder.point_embed.{i}.", "prompt_encoder.point_embeddings.{i}."},
    {"prompt_encoder.mask_embed.conv1.", "prompt_encoder.mask_downscaling.0."},
    {"prompt_encoder.mask_embed.layer_norm1.", "prompt_encoder.mask_downscaling.1."},
    {"prompt_encoder.mask_embed.conv2.", "prompt_encoder.mask_downscaling.3."},
    {"prompt_encoder.mask_embed.layer_norm2.", "prompt_encoder.mask_downscaling.4."},
    {"prompt_encoder.mask_embed.conv3.", "prompt_encoder.mask_downscaling.6."},
    {"mask_decoder.transformer.layers.{i}.layer_norm{i}.",
     "mask_decoder.transformer.layers.{i}.norm{i}."},
    {"mask_decoder.transformer.layer_norm_final_attn.",
     "mask_decoder.transformer.norm_final_attn."},
    {"mask_decoder.upscale_conv1.", "mask_decoder.output_upscaling.0."},
    {"mask_decoder.upscale_layer_norm.", "mask_decoder.output_upscaling.1."},
    {"mask_decoder.upscale_conv2.", "mask_decoder.output_upscaling.3."},
    {"mask_decoder.hq_token.", "mask_decoder.hf_token."},
    {"mask_decoder.hq_mask_mlp.", "mask_decoder.hf_mlp."},
    {"mask_decoder.compress_vit_conv1.", "mask_decoder.compress_vit_feat.0."},
    {"mask_decoder.compress_vit_norm.", "mask_decoder.compress_vit_feat.1."},
    {"mask_decoder.compress_vit_conv2.", "mask_decoder.compress_vit_feat.3."},
    {"mask_decoder.encoder_conv1.", "mask_decoder.embedding_encoder.0."},
    {"mask_decoder.encoder_norm.", "mask_decoder.embedding_encoder.1."},
    {"mask_decoder.encoder_conv2.", "mask_decoder.embedding_encoder.3."},
    {"mask_decoder.mask_conv1.", "mask_decoder.embedding_maskfeature.0."},
    {"mask_decoder.mask_norm.", "mask_decoder.embedding_maskfeature.1."},
    {"mask_decoder.mask_conv2.", "mask_decoder.embedding_maskfeature.3."},
};

constexpr KeyRow kSamShort[] = {
    {"v.", "image_encoder."},
    {"p.pe_layer.gauss", "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"p.", "prompt_encoder."},
    {"d.l.{i}.", "mask_decoder.transformer.layers.{i}."},
    {"d.hyper.", "mask_decoder.output_hypernetworks_mlps."},
    {"d.", "mask_decoder."},
};

// model.config has the transformer's fields among those of the decoder.
constexpr KeyRow kPythonNames[] = {
    {"mask_decoder.transformer.depth", "mask_decoder.transformer_depth"},
    {"mask_decoder.transformer.", "mask_decoder."},
};

constexpr KeyRow kGgufNames[] = {
    {"image_encoder.img_size", "image_size"},
    {"image_encoder.patch_size", "patch_size"},
    {"image_encoder.embed_dim", "vision.embedding_length"},
    {"image_encoder.depth", "vision.block_count"},
    {"image_encoder.mlp_dim", "vision.feed_forward_length"},
    {"image_encoder.num_heads", "vision.attention.head_count"},
    {"image_encoder.layer_norm_eps", "vision.attention.layer_norm_epsilon"},
    {"image_encoder.window_size", "vision.window_size"},
    {"image_encoder.global_attn_indexes", "vision.global_blocks"},
    {"image_encoder.tiny_vit.embed_dims", "vision.tiny_vit.embedding_lengths"},
    {"image_encoder.tiny_vit.depths", "vision.tiny_vit.block_counts"},
    {"image_encoder.tiny_vit.num_heads", "vision.tiny_vit.head_counts"},
    {"image_encoder.tiny_vit.window_sizes", "vision.tiny_vit.window_sizes"},
    {"mask_decoder.hq.vit_dim", "decoder.hq.vit_dim"},
};

// Other spellings of Meta's names.
constexpr KeyRow kSpellings[] = {
    {"image_encoder.blocks.{i}.mlp.fc1.", "image_encoder.blocks.{i}.mlp.lin1."},
    {"image_encoder.blocks.{i}.mlp.fc2.", "image_encoder.blocks.{i}.mlp.lin2."},
    {"image_encoder.blocks.{i}.mlp.layers.0.", "image_encoder.blocks.{i}.mlp.lin1."},
    {"image_encoder.blocks.{i}.mlp.layers.1.", "image_encoder.blocks.{i}.mlp.lin2."},
    {"mask_decoder.transformer.layers.{i}.mlp.fc1.",
     "mask_decoder.transformer.layers.{i}.mlp.lin1."},
    {"mask_decoder.transformer.layers.{i}.mlp.fc2.",
     "mask_decoder.transformer.layers.{i}.mlp.lin2."},
    {"mask_decoder.transformer.layers.{i}.mlp.layers.0.",
     "mask_decoder.transformer.layers.{i}.mlp.lin1."},
    {"mask_decoder.transformer.layers.{i}.mlp.layers.1.",
     "mask_decoder.transformer.layers.{i}.mlp.lin2."},
};

void to_meta(StateDict& state_dict, Dialect dialect) {
  if (dialect == Dialect::kHuggingFace) rename_from_hugging_face(state_dict, kSamRows);
  respell(state_dict, kSpellings);
}

ModelInfo info_of(const NetworkConfig& any) {
  const auto& config = std::get<sam::SamConfig>(any);
  return {.family = "sam",
          .variant = config.variant,
          .version = "1.0",
          .img_size = config.image_encoder.img_size,
          .mask_side = config.prompt_encoder.mask_input_size(),
          .num_multimask_outputs =
              config.mask_decoder.hq ? 1 : config.mask_decoder.num_multimask_outputs,
          .mask_threshold = config.mask_threshold,
          .has_hq_token = config.mask_decoder.hq.has_value()};
}

}  // namespace

const Family& sam_family() {
  static constexpr Family kFamily{
      .name = "sam",
      .title = "SAM",
      .signs = kSigns,
      .decoders = kDecoders,
      .hugging_face = kSamRows,
      .short_names = kSamShort,
      .python_names = kPythonNames,
      .gguf_names = kGgufNames,
      .to_meta = to_meta,
      .config_of =
          [](const StateDict& state_dict, const std::optional<std::string>& variant) {
            return NetworkConfig(sam_config_of(state_dict, variant));
          },
      .folder_config_of =
          [](const StateDict& /*state_dict*/, const NetworkConfig& config, FolderParts /*parts*/) {
            return sam_folder_config(std::get<sam::SamConfig>(config));
          },
      .to_hugging_face =
          [](StateDict& state_dict, const NetworkConfig& /*config*/) {
            rename_to_hugging_face(state_dict, kSamRows);
          },
      .info_of = info_of,
      .releases = [] { return rows_of(sam::releases()); },
      .released_config =
          [] {
            sam::SamConfig config;
            config.image_encoder = sam::releases().front().sizes.image_encoder;
            return NetworkConfig(config);
          },
      .release_of = [](const NetworkConfig& config) { return info_of(config).variant; },
      .resize = "longest-pil",
      .pixel_scale = 255.0,
      .defaults = {.pred_iou_thresh = 0.88},
  };
  return kFamily;
}

}  // namespace sam_rlx
