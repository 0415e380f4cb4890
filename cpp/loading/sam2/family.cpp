#include "loading/family.h"

#include "loading/sam2/config.h"
#include "loading/sam3cpp.h"

namespace sam_rlx {
namespace {

constexpr Sign kSigns[] = {
    {"image_encoder.trunk.pos_embed_window", Dialect::kMeta},
    {"vision_encoder.backbone.pos_embed_window", Dialect::kHuggingFace},
    {"hiera.patch_embed.", Dialect::kSam3Cpp},
    {"image_encoder.trunk.body.stem.", Dialect::kMeta},
    {"vision_encoder.backbone.timm_model.stem.", Dialect::kHuggingFace},
    {"repvit.stem.", Dialect::kSam3Cpp},
};

constexpr std::string_view kDecoders[] = {"sam_mask_decoder.", "sam_prompt_encoder."};

// From transformers' Sam2VideoModel to Meta's SAM2Base, but for the table of points, which is
// split.
constexpr KeyRow kSam2Rows[] = {
    {"vision_encoder.backbone.patch_embed.projection.", "image_encoder.trunk.patch_embed.proj."},
    {"vision_encoder.backbone.blocks.{i}.layer_norm{i}.",
     "image_encoder.trunk.blocks.{i}.norm{i}."},
    {"vision_encoder.backbone.timm_model.", "image_encoder.trunk.body."},
    {"vision_encoder.backbone.", "image_encoder.trunk."},
    {"vision_encoder.neck.convs.{i}.", "image_encoder.neck.convs.{i}.conv."},
    {"prompt_encoder.shared_embedding.positional_embedding",
     "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"prompt_encoder.mask_embed.conv1.", "sam_prompt_encoder.mask_downscaling.0."},
    {"prompt_encoder.mask_embed.layer_norm1.", "sam_prompt_encoder.mask_downscaling.1."},
    {"prompt_encoder.mask_embed.conv2.", "sam_prompt_encoder.mask_downscaling.3."},
    {"prompt_encoder.mask_embed.layer_norm2.", "sam_prompt_encoder.mask_downscaling.4."},
    {"prompt_encoder.mask_embed.conv3.", "sam_prompt_encoder.mask_downscaling.6."},
    {"prompt_encoder.", "sam_prompt_encoder."},
    {"mask_decoder.transformer.layers.{i}.layer_norm{i}.",
     "sam_mask_decoder.transformer.layers.{i}.norm{i}."},
    {"mask_decoder.transformer.layers.{i}.self_attn.o_proj.",
     "sam_mask_decoder.transformer.layers.{i}.self_attn.out_proj."},
    {"mask_decoder.transformer.layers.{i}.cross_attn_token_to_image.o_proj.",
     "sam_mask_decoder.transformer.layers.{i}.cross_attn_token_to_image.out_proj."},
    {"mask_decoder.transformer.layers.{i}.cross_attn_image_to_token.o_proj.",
     "sam_mask_decoder.transformer.layers.{i}.cross_attn_image_to_token.out_proj."},
    {"mask_decoder.transformer.final_attn_token_to_image.o_proj.",
     "sam_mask_decoder.transformer.final_attn_token_to_image.out_proj."},
    {"mask_decoder.transformer.layer_norm_final_attn.",
     "sam_mask_decoder.transformer.norm_final_attn."},
    {"mask_decoder.upscale_conv1.", "sam_mask_decoder.output_upscaling.0."},
    {"mask_decoder.upscale_layer_norm.", "sam_mask_decoder.output_upscaling.1."},
    {"mask_decoder.upscale_conv2.", "sam_mask_decoder.output_upscaling.3."},
    {"mask_decoder.", "sam_mask_decoder."},
    {"memory_attention.layers.{i}.layer_norm{i}.", "memory_attention.layers.{i}.norm{i}."},
    {"memory_attention.layers.{i}.self_attn.o_proj.",
     "memory_attention.layers.{i}.self_attn.out_proj."},
    {"memory_attention.layers.{i}.cross_attn_image.o_proj.",
     "memory_attention.layers.{i}.cross_attn_image.out_proj."},
    // Written as they are; EdgeTamVideoModel's follow, see kEdgeTamRows.
    {"memory_attention.layers.{i}.linear{i}.", "memory_attention.layers.{i}.linear{i}."},
    {"memory_attention.layers.{i}.mlp.up_proj.", "memory_attention.layers.{i}.linear1."},
    {"memory_attention.layers.{i}.mlp.down_proj.", "memory_attention.layers.{i}.linear2."},
    {"memory_attention.layer_norm.", "memory_attention.norm."},
    {"memory_encoder.mask_downsampler.layers.0.conv.",
     "memory_encoder.mask_downsampler.encoder.0."},
    {"memory_encoder.mask_downsampler.layers.0.layer_norm.",
     "memory_encoder.mask_downsampler.encoder.1."},
    {"memory_encoder.mask_downsampler.layers.1.conv.",
     "memory_encoder.mask_downsampler.encoder.3."},
    {"memory_encoder.mask_downsampler.layers.1.layer_norm.",
     "memory_encoder.mask_downsampler.encoder.4."},
    {"memory_encoder.mask_downsampler.layers.2.conv.",
     "memory_encoder.mask_downsampler.encoder.6."},
    {"memory_encoder.mask_downsampler.layers.2.layer_norm.",
     "memory_encoder.mask_downsampler.encoder.7."},
    {"memory_encoder.mask_downsampler.layers.3.conv.",
     "memory_encoder.mask_downsampler.encoder.9."},
    {"memory_encoder.mask_downsampler.layers.3.layer_norm.",
     "memory_encoder.mask_downsampler.encoder.10."},
    {"memory_encoder.mask_downsampler.final_conv.", "memory_encoder.mask_downsampler.encoder.12."},
    {"memory_encoder.feature_projection.", "memory_encoder.pix_feat_proj."},
    {"memory_encoder.memory_fuser.layers.{i}.scale", "memory_encoder.fuser.layers.{i}.gamma"},
    {"memory_encoder.memory_fuser.layers.{i}.depthwise_conv.",
     "memory_encoder.fuser.layers.{i}.dwconv."},
    {"memory_encoder.memory_fuser.layers.{i}.layer_norm.", "memory_encoder.fuser.layers.{i}.norm."},
    {"memory_encoder.memory_fuser.layers.{i}.pointwise_conv{i}.",
     "memory_encoder.fuser.layers.{i}.pwconv{i}."},
    {"memory_encoder.projection.", "memory_encoder.out_proj."},
    {"spatial_perceiver.latents_2d", "spatial_perceiver.latents_2d"},  // before its beginning
    {"spatial_perceiver.latents_1d", "spatial_perceiver.latents"},
    {"spatial_perceiver.layer_norm.", "spatial_perceiver.norm."},
    {"spatial_perceiver.layers.{i}.layer_norm_latents.",
     "spatial_perceiver.layers.{i}.attn.norm_latents."},
    {"spatial_perceiver.layers.{i}.layer_norm_input.", "spatial_perceiver.layers.{i}.attn.norm_x."},
    {"spatial_perceiver.layers.{i}.layer_norm_self.",
     "spatial_perceiver.layers.{i}.self_attn.norm."},
    {"spatial_perceiver.layers.{i}.cross_attention.o_proj.",
     "spatial_perceiver.layers.{i}.attn.to_out."},
    {"spatial_perceiver.layers.{i}.cross_attention.q_proj.",
     "spatial_perceiver.layers.{i}.attn.to_q."},
    {"spatial_perceiver.layers.{i}.cross_attention.k_proj.",
     "spatial_perceiver.layers.{i}.attn.to_k."},
    {"spatial_perceiver.layers.{i}.cross_attention.v_proj.",
     "spatial_perceiver.layers.{i}.attn.to_v."},
    {"spatial_perceiver.layers.{i}.self_attention.o_proj.",
     "spatial_perceiver.layers.{i}.self_attn.to_out."},
    {"spatial_perceiver.layers.{i}.self_attention.q_proj.",
     "spatial_perceiver.layers.{i}.self_attn.to_q."},
    {"spatial_perceiver.layers.{i}.self_attention.k_proj.",
     "spatial_perceiver.layers.{i}.self_attn.to_k."},
    {"spatial_perceiver.layers.{i}.self_attention.v_proj.",
     "spatial_perceiver.layers.{i}.self_attn.to_v."},
    {"spatial_perceiver.layers.{i}.mlp.layer_norm.", "spatial_perceiver.layers.{i}.ff.0."},
    {"spatial_perceiver.layers.{i}.mlp.up_proj.", "spatial_perceiver.layers.{i}.ff.1."},
    {"spatial_perceiver.layers.{i}.mlp.down_proj.", "spatial_perceiver.layers.{i}.ff.3."},
    {"spatial_perceiver.layers.{i}.self_mlp.layer_norm.",
     "spatial_perceiver.layers.{i}.self_ff.0."},
    {"spatial_perceiver.layers.{i}.self_mlp.up_proj.", "spatial_perceiver.layers.{i}.self_ff.1."},
    {"spatial_perceiver.layers.{i}.self_mlp.down_proj.", "spatial_perceiver.layers.{i}.self_ff.3."},
    {"object_pointer_proj.", "obj_ptr_proj."},
    {"temporal_positional_encoding_projection_layer.", "obj_ptr_tpos_proj."},
    {"occlusion_spatial_embedding_parameter", "no_obj_embed_spatial"},
    {"no_object_pointer", "no_obj_ptr"},
    {"memory_temporal_positional_encoding", "maskmem_tpos_enc"},
    {"no_memory_embedding", "no_mem_embed"},
    {"no_memory_positional_encoding", "no_mem_pos_enc"},
};

// Where EdgeTamVideoModel has other names than Sam2VideoModel: from those to its own.
constexpr KeyRow kEdgeTamRows[] = {
    {"memory_attention.layers.{i}.linear1.", "memory_attention.layers.{i}.mlp.up_proj."},
    {"memory_attention.layers.{i}.linear2.", "memory_attention.layers.{i}.mlp.down_proj."},
};

constexpr KeyRow kSam2Short[] = {
    {"v.s{i}.d.", "image_encoder.trunk.body.stages_{i}.downsample."},
    {"v.s{i}.", "image_encoder.trunk.body.stages_{i}."},
    {"v.", "image_encoder.trunk."},
    {"vn.", "image_encoder.neck.convs."},
    {"p.pe_layer.gauss", "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"p.", "sam_prompt_encoder."},
    {"d.l.{i}.", "sam_mask_decoder.transformer.layers.{i}."},
    {"d.hyper.", "sam_mask_decoder.output_hypernetworks_mlps."},
    {"d.", "sam_mask_decoder."},
    {"ma.", "memory_attention."},
    {"me.", "memory_encoder."},
};

constexpr KeyRow kPythonNames[] = {
    {"image_encoder.trunk.", "trunk."},
    {"image_encoder.neck.", "neck."},
    {"heads.mask_decoder.transformer.depth", "mask_decoder.transformer_depth"},
    {"heads.mask_decoder.transformer.", "mask_decoder."},
    {"heads.base.image_size", "image_size"},
    {"heads.memory_encoder.out_dim", "mem_dim"},
    {"heads.memory_bank.num_maskmem", "num_maskmem"},
    {"heads.", ""},
};

constexpr KeyRow kGgufNames[] = {
    {"heads.base.image_size", "image_size"},
    {"image_encoder.trunk.patch_stride", "patch_size"},
    {"image_encoder.trunk.embed_dim", "vision.embedding_length"},
    {"image_encoder.trunk.stages", "vision.stage_blocks"},
    {"image_encoder.trunk.stage_heads", "vision.stage_heads"},
    {"image_encoder.trunk.window_spec", "vision.window_sizes"},
    {"image_encoder.trunk.global_att_blocks", "vision.global_blocks"},
    {"image_encoder.trunk.window_pos_embed_bkg_spatial_size", "vision.pos_background"},
    {"image_encoder.rep_vit.embed_dim", "vision.rep_vit.embedding_lengths"},
    {"image_encoder.rep_vit.depth", "vision.rep_vit.block_counts"},
    {"heads.memory_bank.num_maskmem", "memory.count"},
    {"heads.spatial_perceiver.num_latents", "memory.latent_count"},
    {"heads.spatial_perceiver.num_latents_2d", "memory.local_latent_count"},
};

// Other spellings of Meta's names. A head of one layer is written without its number. Some programs
// rename every "gamma" to "weight", as transformers once did.
constexpr KeyRow kSpellings[] = {
    {"image_encoder.trunk.blocks.{i}.mlp.fc1.", "image_encoder.trunk.blocks.{i}.mlp.layers.0."},
    {"image_encoder.trunk.blocks.{i}.mlp.fc2.", "image_encoder.trunk.blocks.{i}.mlp.layers.1."},
    {"image_encoder.trunk.blocks.{i}.mlp.lin1.", "image_encoder.trunk.blocks.{i}.mlp.layers.0."},
    {"image_encoder.trunk.blocks.{i}.mlp.lin2.", "image_encoder.trunk.blocks.{i}.mlp.layers.1."},
    {"sam_mask_decoder.transformer.layers.{i}.mlp.fc1.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.layers.0."},
    {"sam_mask_decoder.transformer.layers.{i}.mlp.fc2.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.layers.1."},
    {"sam_mask_decoder.transformer.layers.{i}.mlp.lin1.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.layers.0."},
    {"sam_mask_decoder.transformer.layers.{i}.mlp.lin2.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.layers.1."},
    {"sam_mask_decoder.pred_obj_score_head.weight",
     "sam_mask_decoder.pred_obj_score_head.layers.0.weight"},
    {"sam_mask_decoder.pred_obj_score_head.bias",
     "sam_mask_decoder.pred_obj_score_head.layers.0.bias"},
    {"obj_ptr_proj.weight", "obj_ptr_proj.layers.0.weight"},
    {"obj_ptr_proj.bias", "obj_ptr_proj.layers.0.bias"},
    {"memory_encoder.fuser.layers.{i}.weight", "memory_encoder.fuser.layers.{i}.gamma"},
};

// Keys and values of the perceiver's attentions are one tensor of Meta's.
std::vector<StateDict::Join> perceiver_joins(const StateDict& state_dict, std::string_view part) {
  std::vector<StateDict::Join> joins;
  for (const TensorEntry& entry : state_dict.tensors()) {
    if (!entry.name.starts_with("spatial_perceiver.") || !entry.name.ends_with(part)) continue;
    const std::string base = entry.name.substr(0, entry.name.size() - part.size());
    joins.push_back({{base + "to_k.weight", base + "to_v.weight"}, base + "to_kv.weight"});
  }
  return joins;
}

void join_perceiver(StateDict& state_dict) {
  state_dict.join(perceiver_joins(state_dict, "to_k.weight"));
}

void split_perceiver(StateDict& state_dict) {
  for (const StateDict::Join& join : perceiver_joins(state_dict, "to_kv.weight")) {
    state_dict.split(join.name, join.names);
  }
}

void to_meta(StateDict& state_dict, Dialect dialect) {
  if (dialect == Dialect::kSam3Cpp) return sam2_from_sam3cpp(state_dict);
  if (dialect == Dialect::kHuggingFace) {
    rename_from_hugging_face(state_dict, kSam2Rows);
    split_points(state_dict, "sam_prompt_encoder.");
    join_perceiver(state_dict);
  }
  respell(state_dict, kSpellings);
}

ModelInfo info_of(const NetworkConfig& any) {
  const auto& config = std::get<sam2::Sam2Config>(any);
  return {.family = "sam2",
          .variant = config.variant,
          .version = config.version,
          .img_size = config.heads.base.image_size,
          .mask_side = 4 * config.heads.base.grid(),
          .num_multimask_outputs = config.heads.mask_decoder.num_multimask_outputs,
          .mask_threshold = config.mask_threshold,
          .supports_video = config.heads.memory,
          .has_hq_token = config.heads.mask_decoder.hq};
}

// "2.1/tiny".
std::string release_of(const NetworkConfig& any) {
  const auto& config = std::get<sam2::Sam2Config>(any);
  std::string name = config.variant;
  for (const Release& release : sam2::releases()) {
    if (release.variant == config.variant) name = release.name;
  }
  return config.version + "/" + name;
}

}  // namespace

const Family& sam2_family() {
  static constexpr Family kFamily{
      .name = "sam2",
      .title = "SAM 2",
      .signs = kSigns,
      .decoders = kDecoders,
      .hugging_face = kSam2Rows,
      .short_names = kSam2Short,
      .python_names = kPythonNames,
      .gguf_names = kGgufNames,
      .to_meta = to_meta,
      .config_of =
          [](const StateDict& state_dict, const std::optional<std::string>& variant) {
            return NetworkConfig(sam2_config_of(state_dict, variant));
          },
      .folder_config_of =
          [](const StateDict& /*state_dict*/, const NetworkConfig& config, FolderParts parts) {
            sam2::Sam2Config wanted = std::get<sam2::Sam2Config>(config);
            if (parts == FolderParts::kClicks) wanted.heads.memory = false;
            return sam2_folder_config(wanted);
          },
      .to_hugging_face =
          [](StateDict& state_dict, const NetworkConfig& config) {
            split_perceiver(state_dict);
            rename_to_hugging_face(state_dict, kSam2Rows);
            if (std::get<sam2::Sam2Config>(config).image_encoder.rep_vit) {
              respell(state_dict, kEdgeTamRows);
            }
            join_points(state_dict, "prompt_encoder.");
          },
      .info_of = info_of,
      .releases = [] { return rows_of(sam2::releases()); },
      .released_config = [] { return NetworkConfig(sam2::Sam2Config()); },
      .release_of = release_of,
      .resize = "square-float-antialias",
      .defaults = {.clamps_low_res_masks = true, .refines_masks = true, .fill_hole_area = 8},
      .session = {.resizes = {.clip_decoder = true}},
  };
  return kFamily;
}

}  // namespace sam_rlx
