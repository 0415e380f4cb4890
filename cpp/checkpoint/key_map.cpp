#include "checkpoint/key_map.h"

#include <algorithm>
#include <array>
#include <vector>

#include "checkpoint/family.h"
#include "checkpoint/key_map_sam3.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr std::string_view kNumber = "{i}";

constexpr std::array<std::string_view, 4> kWrappers{"module.", "_orig_mod.", "model.", "sam."};

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
    {"mask_decoder.output_hypernetworks_mlps.{i}.proj_in.",
     "mask_decoder.output_hypernetworks_mlps.{i}.layers.0."},
    {"mask_decoder.output_hypernetworks_mlps.{i}.layers.0.",
     "mask_decoder.output_hypernetworks_mlps.{i}.layers.1."},
    {"mask_decoder.output_hypernetworks_mlps.{i}.proj_out.",
     "mask_decoder.output_hypernetworks_mlps.{i}.layers.2."},
    {"mask_decoder.iou_prediction_head.proj_in.", "mask_decoder.iou_prediction_head.layers.0."},
    {"mask_decoder.iou_prediction_head.layers.0.", "mask_decoder.iou_prediction_head.layers.1."},
    {"mask_decoder.iou_prediction_head.proj_out.", "mask_decoder.iou_prediction_head.layers.2."},
};

// From transformers' Sam2VideoModel to Meta's SAM2Base.
constexpr KeyRow kSam2Rows[] = {
    {"vision_encoder.backbone.patch_embed.projection.", "image_encoder.trunk.patch_embed.proj."},
    {"vision_encoder.backbone.blocks.{i}.layer_norm{i}.",
     "image_encoder.trunk.blocks.{i}.norm{i}."},
    {"vision_encoder.backbone.blocks.{i}.mlp.proj_in.",
     "image_encoder.trunk.blocks.{i}.mlp.layers.0."},
    {"vision_encoder.backbone.blocks.{i}.mlp.proj_out.",
     "image_encoder.trunk.blocks.{i}.mlp.layers.1."},
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
    {"mask_decoder.transformer.layers.{i}.mlp.proj_in.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.layers.0."},
    {"mask_decoder.transformer.layers.{i}.mlp.proj_out.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.layers.1."},
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
    {"mask_decoder.output_hypernetworks_mlps.{i}.proj_in.",
     "sam_mask_decoder.output_hypernetworks_mlps.{i}.layers.0."},
    {"mask_decoder.output_hypernetworks_mlps.{i}.layers.0.",
     "sam_mask_decoder.output_hypernetworks_mlps.{i}.layers.1."},
    {"mask_decoder.output_hypernetworks_mlps.{i}.proj_out.",
     "sam_mask_decoder.output_hypernetworks_mlps.{i}.layers.2."},
    {"mask_decoder.iou_prediction_head.proj_in.", "sam_mask_decoder.iou_prediction_head.layers.0."},
    {"mask_decoder.iou_prediction_head.layers.0.",
     "sam_mask_decoder.iou_prediction_head.layers.1."},
    {"mask_decoder.iou_prediction_head.proj_out.",
     "sam_mask_decoder.iou_prediction_head.layers.2."},
    {"mask_decoder.pred_obj_score_head.proj_in.", "sam_mask_decoder.pred_obj_score_head.layers.0."},
    {"mask_decoder.pred_obj_score_head.layers.0.",
     "sam_mask_decoder.pred_obj_score_head.layers.1."},
    {"mask_decoder.pred_obj_score_head.proj_out.",
     "sam_mask_decoder.pred_obj_score_head.layers.2."},
    {"mask_decoder.", "sam_mask_decoder."},
    {"memory_attention.layers.{i}.layer_norm{i}.", "memory_attention.layers.{i}.norm{i}."},
    {"memory_attention.layers.{i}.self_attn.o_proj.",
     "memory_attention.layers.{i}.self_attn.out_proj."},
    {"memory_attention.layers.{i}.cross_attn_image.o_proj.",
     "memory_attention.layers.{i}.cross_attn_image.out_proj."},
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
    {"object_pointer_proj.proj_in.", "obj_ptr_proj.layers.0."},
    {"object_pointer_proj.layers.0.", "obj_ptr_proj.layers.1."},
    {"object_pointer_proj.proj_out.", "obj_ptr_proj.layers.2."},
    {"temporal_positional_encoding_projection_layer.", "obj_ptr_tpos_proj."},
    {"occlusion_spatial_embedding_parameter", "no_obj_embed_spatial"},
    {"no_object_pointer", "no_obj_ptr"},
    {"memory_temporal_positional_encoding", "maskmem_tpos_enc"},
    {"no_memory_embedding", "no_mem_embed"},
    {"no_memory_positional_encoding", "no_mem_pos_enc"},
};

bool is_digit(char character) { return character >= '0' && character <= '9'; }

// Length of the part of `name` that the pattern takes, and the numbers in it.
std::optional<std::size_t> match(std::string_view pattern, std::string_view name,
                                 std::vector<std::string_view>& numbers) {
  std::size_t at = 0;
  while (!pattern.empty()) {
    if (pattern.starts_with(kNumber)) {
      const std::size_t begin = at;
      while (at < name.size() && is_digit(name[at])) ++at;
      if (at == begin) return std::nullopt;
      numbers.push_back(name.substr(begin, at - begin));
      pattern.remove_prefix(kNumber.size());
    } else {
      if (at == name.size() || name[at] != pattern.front()) return std::nullopt;
      ++at;
      pattern.remove_prefix(1);
    }
  }
  return at;
}

std::string fill(std::string_view pattern, const std::vector<std::string_view>& numbers) {
  std::string result;
  for (const std::string_view number : numbers) {
    const std::size_t place = pattern.find(kNumber);
    result.append(pattern.substr(0, place)).append(number);
    pattern.remove_prefix(place + kNumber.size());
  }
  return result.append(pattern);
}

void rename_from_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    if (entry.name == kEncodingCopy) {
      names.push_back(state_dict.contains(kEncodingName) ? "" : *map_key(rows, kEncodingName));
    } else {
      names.push_back(map_key(rows, entry.name).value_or(entry.name));
    }
  }
  state_dict.rename(names);
}

// The image model's own names: upstream strips the detector's prefix when it loads a checkpoint,
// and keeps the tracker in the predictor that takes clicks.
void restore_detector_prefix(StateDict& state_dict) {
  constexpr std::string_view kDetector = "detector.", kTracker = "tracker.";
  constexpr KeyRow kClicks{"inst_interactive_predictor.model.", kTracker};
  const auto& tensors = state_dict.tensors();
  if (std::any_of(tensors.begin(), tensors.end(),
                  [&](const TensorEntry& entry) { return entry.name.starts_with(kDetector); })) {
    return;
  }
  std::vector<std::string> names;
  for (const TensorEntry& entry : tensors) {
    const std::optional<std::string> clicks = map_key({&kClicks, 1}, entry.name);
    const bool of_tracker = entry.name.starts_with(kTracker);
    names.push_back(clicks ? *clicks : (of_tracker ? "" : std::string(kDetector)) + entry.name);
  }
  state_dict.rename(names);
}

}  // namespace

std::span<const KeyRow> sam_rows() { return kSamRows; }

std::span<const KeyRow> sam2_rows() { return kSam2Rows; }

std::optional<std::string> map_key(std::span<const KeyRow> rows, std::string_view name) {
  for (const KeyRow& row : rows) {
    std::vector<std::string_view> numbers;
    const std::optional<std::size_t> length = match(row.from, name, numbers);
    if (length) return fill(row.to, numbers).append(name.substr(*length));
  }
  return std::nullopt;
}

bool matches_key(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> numbers;
  return match(pattern, name, numbers).has_value();
}

void strip_common_prefixes(StateDict& state_dict) {
  const auto strip = [&](std::string_view prefix) {
    const auto& tensors = state_dict.tensors();
    const bool common =
        !tensors.empty() &&
        std::all_of(tensors.begin(), tensors.end(), [&](const TensorEntry& entry) {
          return entry.name.size() > prefix.size() && entry.name.starts_with(prefix);
        });
    if (!common) return false;
    std::vector<std::string> names;
    for (const TensorEntry& entry : tensors) names.push_back(entry.name.substr(prefix.size()));
    state_dict.rename(names);
    return true;
  };
  constexpr int kMostWrappers = 8;
  for (int i = 0; i < kMostWrappers; ++i) {
    if (!std::any_of(kWrappers.begin(), kWrappers.end(), strip)) return;
  }
}

void split_points(StateDict& state_dict, const std::string& prompt_encoder) {
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) {
    names.push_back(prompt_encoder + "point_embeddings." + std::to_string(i) + ".weight");
  }
  state_dict.split(prompt_encoder + "point_embed.weight", names);
}

std::string to_meta_names(StateDict& state_dict) {
  const Family family = detect_family(state_dict);
  if (family.name == "sam3") {
    if (family.dialect == Dialect::kMeta) {
      restore_detector_prefix(state_dict);
    } else {
      sam3_from_hugging_face(state_dict);
    }
    return family.name;
  }
  if (family.dialect == Dialect::kMeta) return family.name;
  if (family.name == "sam") {
    rename_from_hugging_face(state_dict, kSamRows);
  } else {
    rename_from_hugging_face(state_dict, kSam2Rows);
    split_points(state_dict, "sam_prompt_encoder.");
  }
  return family.name;
}

}  // namespace sam_rlx
