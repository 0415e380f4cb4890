#include "loading/sam2/heads_config.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"

namespace sam_rlx {
namespace {

// transformers' configs of SAM 2's heads, in SAM 3 too. The second key of a field is that of older
// versions.
constexpr KeyRow kHeadNames[] = {
    {"mask_decoder.transformer.num_heads", "mask_decoder_config.num_attention_heads"},
    {"mask_decoder.transformer.attention_downsample_rate",
     "mask_decoder_config.attention_downsample_rate"},
    {"mask_decoder.dynamic_multimask_via_stability",
     "mask_decoder_config.dynamic_multimask_via_stability"},
    {"mask_decoder.dynamic_multimask_stability_delta",
     "mask_decoder_config.dynamic_multimask_stability_delta"},
    {"mask_decoder.dynamic_multimask_stability_thresh",
     "mask_decoder_config.dynamic_multimask_stability_thresh"},
    {"memory_bank.max_cond_frames_in_attn", "max_cond_frame_num"},
    {"memory_bank.max_obj_ptrs_in_encoder", "max_object_pointers_in_encoder"},
    {"memory_attention.rope_theta", "memory_attention_rope_theta"},
    {"memory_attention.rope_theta", "rope_parameters.rope_theta"},
    {"base.sigmoid_scale_for_mem_enc", "sigmoid_scale_for_mem_enc"},
    {"base.sigmoid_bias_for_mem_enc", "sigmoid_bias_for_mem_enc"},
    {"base.multimask_output_for_tracking", "multimask_output_for_tracking"},
    {"base.multimask_min_pt_num", "multimask_min_pt_num"},
    {"base.multimask_max_pt_num", "multimask_max_pt_num"},
};

template <class Io>
void decoder_settings(Io& folder, const sam2::HeadsConfig& heads) {
  const std::string d = folder.kind().heads + std::string("mask_decoder_config.");
  const std::string p = folder.kind().heads + std::string("prompt_encoder_config.");
  const sam2::MaskDecoderConfig& decoder = heads.mask_decoder;
  const std::string_view token = "sam_mask_decoder.iou_token.weight";
  const std::string_view layers = "sam_mask_decoder.transformer.layers";
  const std::string_view iou = "sam_mask_decoder.iou_prediction_head.layers";
  folder.expect(d + "hidden_size", heads.hidden_dim(), token);
  folder.expect(p + "hidden_size", heads.hidden_dim(), token);
  folder.expect(p + "mask_input_channels", heads.base.mask_in_chans,
                "sam_prompt_encoder.mask_downscaling.3.weight");
  folder.expect(d + "num_hidden_layers", decoder.transformer.depth, layers);
  folder.expect(d + "mlp_dim", decoder.transformer.mlp_dim, layers);
  folder.expect(d + "num_multimask_outputs", decoder.num_multimask_outputs,
                "sam_mask_decoder.mask_tokens.weight");
  folder.expect(d + "iou_head_depth", decoder.iou_head_depth, iou);
  folder.expect(d + "iou_head_hidden_dim", decoder.iou_head_hidden_dim, iou);
  // transformers counts the layers within its blocks by the same setting.
  constexpr std::int64_t kMaxBlocks = 2;
  if (decoder.transformer.depth > kMaxBlocks) {
    fail<UnsupportedError>(std::string(FolderReader::kWhere) + ": " + d + "num_hidden_layers",
                           "1 or 2", std::to_string(decoder.transformer.depth));
  }
  folder.require(d + "hidden_act", "gelu");
  folder.require(p + "hidden_act", "gelu");
  folder.require(p + "num_point_embeddings", 4);
  folder.require(p + "scale", 1);
  folder.require_epsilon(p + "layer_norm_eps", 1e-6);
}

// EdgeTAM's.
template <class Io>
void perceiver_settings(Io& folder, const sam2::SpatialPerceiverConfig& perceiver) {
  const std::string p = folder.kind().heads + std::string("perceiver_resampler_");
  const std::string_view name = "spatial_perceiver";
  const std::int64_t side = perceiver.windows();
  folder.expect(p + "num_latents", perceiver.num_latents, "spatial_perceiver.latents");
  folder.expect(p + "num_latents_2d", perceiver.num_latents_2d, "spatial_perceiver.latents_2d");
  folder.expect(p + "hidden_size", perceiver.dim, name);
  folder.expect(p + "mlp_intermediate_size", perceiver.ff_mult * perceiver.dim, name);
  folder.expect(p + "num_layers", perceiver.depth, name);
  folder.require(p + "num_attention_heads", 1);
  folder.require(p + "attention_head_dim", perceiver.dim);
  folder.require(folder.kind().heads + std::string("memory_attention_rope_k_sizes"),
                 std::array{side, side});
}

template <class Io>
void memory_settings(Io& folder, const sam2::HeadsConfig& heads) {
  const std::string h = folder.kind().heads;
  const std::int64_t width = heads.hidden_dim();
  const std::string_view layers = "memory_attention.layers", encoder = "memory_encoder";
  folder.expect(h + "num_maskmem", heads.memory_bank.num_maskmem, "maskmem_tpos_enc");
  folder.expect(h + "memory_encoder_output_channels", heads.mem_dim(), "maskmem_tpos_enc");
  folder.expect(h + "memory_attention_num_layers", heads.memory_attention.num_layers, layers);
  const std::string mlp =
      h + (heads.spatial_perceiver ? "memory_attention_mlp_" : "memory_attention_feed_forward_");
  folder.expect(mlp + "hidden_size", heads.memory_attention.dim_feedforward, layers);
  folder.expect(h + "memory_fuser_num_layers", heads.memory_encoder.fuser_layers, encoder);
  folder.expect(h + "enable_occlusion_spatial_embedding", heads.base.no_obj_embed_spatial,
                "no_obj_embed_spatial");
  folder.expect(h + "enable_temporal_pos_encoding_for_object_pointers",
                heads.base.add_tpos_enc_to_obj_ptrs, "obj_ptr_tpos_proj.weight");
  for (const char* const key : {"memory_attention_hidden_size", "memory_encoder_hidden_size",
                                "mask_downsampler_embed_dim", "memory_fuser_embed_dim"}) {
    folder.require(h + key, width);
  }
  folder.require(h + "memory_fuser_intermediate_dim", 4 * width);
  folder.require(h + "memory_attention_num_attention_heads", 1);
  folder.require(h + "memory_attention_downsample_rate", 1);
  folder.require(mlp + "hidden_act", "relu");
  folder.require(h + "mask_downsampler_kernel_size", 3);
  folder.require(h + "mask_downsampler_stride", 2);
  folder.require(h + "mask_downsampler_padding", 1);
  folder.require(h + "mask_downsampler_total_stride", heads.memory_encoder.total_stride);
  folder.require(h + "mask_downsampler_hidden_act", "gelu");
  folder.require(h + "memory_fuser_kernel_size", 7);
  folder.require(h + "memory_fuser_padding", 3);
  folder.require(h + "memory_fuser_hidden_act", "gelu");
  folder.require(h + "multimask_output_in_sam", true);
  if (heads.spatial_perceiver) perceiver_settings(folder, *heads.spatial_perceiver);
}

template <class Io>
void heads_settings(Io& folder, sam2::HeadsConfig& heads) {
  decoder_settings(folder, heads);
  if (heads.memory) memory_settings(folder, heads);
  const std::string v = folder.kind().vision, h = folder.kind().heads;
  folder.fields(heads, kHeadNames, h);
  const std::int64_t side = heads.base.image_size, g = heads.base.grid();
  folder.require(h + "prompt_encoder_config.image_size", side);
  folder.require(h + "prompt_encoder_config.patch_size", heads.base.backbone_stride);
  folder.require(h + "image_size", side);
  folder.require(h + "memory_attention_rope_feat_sizes", std::array{g, g});
  folder.require(v + "backbone_feature_sizes", feature_sizes(g));
}

bool has_memory(const StateDict& state_dict, const HeadsNames& names) {
  const std::array begins{names.prefix + "maskmem_tpos_enc", names.prefix + names.memory_attention,
                          names.prefix + names.memory_encoder};
  const auto& tensors = state_dict.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [&](const TensorEntry& entry) {
    return std::any_of(begins.begin(), begins.end(),
                       [&](const std::string& begin) { return entry.name.starts_with(begin); });
  });
}

// Whether a head has more than its first layer.
bool has_several(const StateDict& state_dict, const std::string& head) {
  return state_dict.contains(head + "layers.1.weight") ||
         !state_dict.contains(head + "layers.0.weight");
}

// Any of these tells HQ-SAM 2, so that a file with some of them is told what it lacks.
bool has_hq_token(const StateDict& state_dict, const std::string& decoder) {
  constexpr std::string_view kParts[] = {"hf_token.", "hf_mlp.", "embedding_maskfeature."};
  const auto& tensors = state_dict.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [&](const TensorEntry& entry) {
    return std::any_of(std::begin(kParts), std::end(kParts), [&](std::string_view part) {
      return entry.name.starts_with(decoder + std::string(part));
    });
  });
}

void read_decoder(const StateDict& state_dict, const HeadsNames& names,
                  sam2::MaskDecoderConfig& decoder) {
  const std::string name = names.prefix + "sam_mask_decoder.";
  const std::string layers = name + "transformer.layers.";
  const std::string iou = name + "iou_prediction_head.layers.";
  const std::string hidden = layers + "0." + names.first_linear + "weight";
  sam::TwoWayTransformerConfig& t = decoder.transformer;
  t.embedding_dim = size_of(required_tensor(state_dict, name + "iou_token.weight", 2), 1);
  t.depth = count_of(state_dict, layers, ".norm1.weight");
  t.mlp_dim = size_of(required_tensor(state_dict, hidden, 2), 0);
  decoder.num_multimask_outputs =
      size_of(required_tensor(state_dict, name + "mask_tokens.weight", 2), 0) - 1;
  decoder.iou_head_depth = count_of(state_dict, iou, ".weight");
  decoder.pred_obj_scores_mlp = has_several(state_dict, name + "pred_obj_score_head.");
  decoder.iou_head_hidden_dim = size_of(required_tensor(state_dict, iou + "0.weight", 2), 0);
  decoder.hq = has_hq_token(state_dict, name);
}

// EdgeTAM's, if it is there.
void read_perceiver(const StateDict& state_dict, sam2::HeadsConfig& heads) {
  const std::string name = "spatial_perceiver.", layers = name + "layers.";
  if (!state_dict.contains(name + "latents")) return;
  const TensorEntry& latents = required_tensor(state_dict, name + "latents", 2);
  sam2::SpatialPerceiverConfig& perceiver = heads.spatial_perceiver.emplace();
  perceiver.dim = size_of(latents, 1);
  perceiver.num_latents = size_of(latents, 0);
  perceiver.num_latents_2d = size_of(required_tensor(state_dict, name + "latents_2d", 2), 0);
  perceiver.depth = count_of(state_dict, layers, ".ff.1.weight");
  perceiver.ff_mult =
      size_of(required_tensor(state_dict, layers + "0.ff.1.weight", 2), 0) / perceiver.dim;
  heads.memory_attention.key_size = perceiver.windows();
}

void read_memory(const StateDict& state_dict, const HeadsNames& names, sam2::HeadsConfig& heads) {
  const TensorEntry& times = required_tensor(state_dict, names.prefix + "maskmem_tpos_enc", 4);
  heads.memory_bank.num_maskmem = size_of(times, 0);
  heads.base.use_mlp_for_obj_ptr_proj = has_several(state_dict, names.prefix + "obj_ptr_proj.");
  sam2::MemoryEncoderConfig& encoder = heads.memory_encoder;
  encoder.in_dim = heads.hidden_dim();
  encoder.out_dim = size_of(times, 3);
  encoder.fuser_layers =
      count_of(state_dict, names.prefix + names.memory_encoder + "fuser.layers.", ".gamma");
  sam2::MemoryAttentionConfig& attention = heads.memory_attention;
  const std::string layers = names.prefix + names.memory_attention + "layers.";
  attention.d_model = heads.hidden_dim();
  attention.kv_in_dim = encoder.out_dim;
  attention.num_layers = count_of(state_dict, layers, ".norm1.weight");
  attention.dim_feedforward =
      size_of(required_tensor(state_dict, layers + "0.linear1.weight", 2), 0);
  read_perceiver(state_dict, heads);
}

}  // namespace

void read_heads(const StateDict& state_dict, const HeadsNames& names, sam2::HeadsConfig& heads) {
  read_decoder(state_dict, names, heads.mask_decoder);
  const std::string prompts = names.prefix + "sam_prompt_encoder.";
  heads.base.mask_in_chans =
      size_of(required_tensor(state_dict, prompts + "mask_downscaling.3.weight", 4), 0);
  heads.memory = has_memory(state_dict, names);
  if (heads.memory) read_memory(state_dict, names, heads);
}

std::vector<std::array<std::int64_t, 2>> feature_sizes(std::int64_t grid) {
  return {{4 * grid, 4 * grid}, {2 * grid, 2 * grid}, {grid, grid}};
}

void read_heads_settings(const FolderReader& folder, sam2::HeadsConfig& heads) {
  const HuggingFaceClass& kind = folder.kind();
  if (kind.memory && !heads.memory) {
    fail<CheckpointError>("config.json: model_type", "a class without memory, as the tensors are",
                          quoted(kind.model_type));
  }
  heads_settings(folder, heads);
}

void write_heads_settings(FolderWriter& folder, sam2::HeadsConfig heads) {
  const auto fixed = [&](const char* what, std::int64_t expected, std::int64_t found) {
    if (expected == found) return;
    fail<UnsupportedError>(what, std::to_string(expected) + ", as transformers' classes have fixed",
                           std::to_string(found));
  };
  constexpr std::int64_t kMemoryWidth = 64, kHeadDepth = 3, kMaskStride = 16;
  fixed("layers of the object score", kHeadDepth,
        heads.mask_decoder.pred_obj_scores_mlp ? kHeadDepth : 1);
  if (heads.memory) {
    fixed("width of the memory", kMemoryWidth, heads.mem_dim());
    fixed("stride of masks in the memory", kMaskStride, heads.memory_encoder.total_stride);
    fixed("layers of the object pointer", kHeadDepth,
          heads.base.use_mlp_for_obj_ptr_proj ? kHeadDepth : 1);
  }
  heads_settings(folder, heads);
  if (heads.memory) {
    folder.value(folder.kind().heads + std::string("rope_parameters.rope_type"), "axial");
  }
}

void check_released_heads(const sam2::HeadsConfig& heads, const HeadsNames& names,
                          const std::string& source) {
  sam2::HeadsConfig known;
  if (heads.spatial_perceiver) known.memory_attention.num_layers = 2;
  if (heads.hidden_dim() != known.hidden_dim()) return;
  const auto check = [&](const std::string& part, std::int64_t expected, std::int64_t found) {
    if (expected == found) return;
    fail<CheckpointError>(source + ": " + names.prefix + part,
                          std::to_string(expected) + " layers, as every release has at width " +
                              std::to_string(known.hidden_dim()),
                          std::to_string(found));
  };
  check("sam_mask_decoder.transformer.layers", known.mask_decoder.transformer.depth,
        heads.mask_decoder.transformer.depth);
  check("sam_mask_decoder.iou_prediction_head.layers", known.mask_decoder.iou_head_depth,
        heads.mask_decoder.iou_head_depth);
  check(names.memory_attention + "layers", known.memory_attention.num_layers,
        heads.memory_attention.num_layers);
  check(names.memory_encoder + "fuser.layers", known.memory_encoder.fuser_layers,
        heads.memory_encoder.fuser_layers);
}

bool heads_fit(const sam2::HeadsConfig& heads, std::int64_t channels) {
  const sam::TwoWayTransformerConfig& t = heads.mask_decoder.transformer;
  const std::int64_t inner = t.embedding_dim / t.attention_downsample_rate;
  const auto& perceiver = heads.spatial_perceiver;
  const bool perceiver_fits =
      !perceiver || (perceiver->dim == heads.mem_dim() &&
                     perceiver->windows() * perceiver->windows() == perceiver->num_latents_2d);
  const bool memory_fits = !heads.memory || (t.embedding_dim % heads.mem_dim() == 0 &&
                                             heads.mem_dim() % 4 == 0 && perceiver_fits);
  return t.embedding_dim == channels && t.embedding_dim % 8 == 0 && inner % t.num_heads == 0 &&
         t.embedding_dim % t.num_heads == 0 && heads.base.mask_in_chans % 4 == 0 && memory_fits;
}

}  // namespace sam_rlx
