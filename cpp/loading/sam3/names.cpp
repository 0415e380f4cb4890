#include "loading/sam3/names.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "loading/family.h"

namespace sam_rlx {
namespace {

// From transformers' Sam3Model to Meta's detector, both behind their prefixes. Queries, keys and
// values are joined afterwards.
constexpr KeyRow kDetectorRows[] = {
    // Trunk and necks.
    {"vision_encoder.backbone.embeddings.position_embeddings",
     "backbone.vision_backbone.trunk.pos_embed"},
    {"vision_encoder.backbone.embeddings.patch_embeddings.projection.",
     "backbone.vision_backbone.trunk.patch_embed.proj."},
    {"vision_encoder.backbone.layer_norm.", "backbone.vision_backbone.trunk.ln_pre."},
    {"vision_encoder.backbone.layers.{i}.layer_norm{i}.",
     "backbone.vision_backbone.trunk.blocks.{i}.norm{i}."},
    {"vision_encoder.backbone.layers.{i}.attention.o_proj.",
     "backbone.vision_backbone.trunk.blocks.{i}.attn.proj."},
    {"vision_encoder.backbone.layers.{i}.attention.",
     "backbone.vision_backbone.trunk.blocks.{i}.attn.qkv."},
    {"vision_encoder.backbone.layers.{i}.", "backbone.vision_backbone.trunk.blocks.{i}."},
    {"vision_encoder.neck.fpn_layers.", "backbone.vision_backbone.convs."},
    // Text encoder.
    {"text_encoder.text_projection.weight", "backbone.language_backbone.encoder.text_projection"},
    {"text_encoder.text_model.embeddings.token_embedding.",
     "backbone.language_backbone.encoder.token_embedding."},
    {"text_encoder.text_model.embeddings.position_embedding.weight",
     "backbone.language_backbone.encoder.positional_embedding"},
    {"text_encoder.text_model.encoder.layers.{i}.self_attn.",
     "backbone.language_backbone.encoder.transformer.resblocks.{i}.attn."},
    {"text_encoder.text_model.encoder.layers.{i}.layer_norm{i}.",
     "backbone.language_backbone.encoder.transformer.resblocks.{i}.ln_{i}."},
    {"text_encoder.text_model.encoder.layers.{i}.mlp.fc1.",
     "backbone.language_backbone.encoder.transformer.resblocks.{i}.mlp.c_fc."},
    {"text_encoder.text_model.encoder.layers.{i}.mlp.fc2.",
     "backbone.language_backbone.encoder.transformer.resblocks.{i}.mlp.c_proj."},
    {"text_encoder.text_model.final_layer_norm.", "backbone.language_backbone.encoder.ln_final."},
    {"text_projection.", "backbone.language_backbone.resizer."},
    // That of SAM3-LiteText.
    {"text_encoder.embeddings.token_embedding.",
     "backbone.language_backbone.encoder.embedding_layer."},
    {"text_encoder.embeddings.position_embedding.position_embedding",
     "backbone.language_backbone.encoder.positional_embedding.pos_embed.pos_embed"},
    {"text_encoder.layers.{i}.layer_norm1.",
     "backbone.language_backbone.encoder.transformer.{i}.pre_norm_mha.0."},
    {"text_encoder.layers.{i}.self_attn.out_proj.",
     "backbone.language_backbone.encoder.transformer.{i}.pre_norm_mha.1.out_proj."},
    {"text_encoder.layers.{i}.self_attn.",
     "backbone.language_backbone.encoder.transformer.{i}.pre_norm_mha.1.qkv_proj."},
    {"text_encoder.layers.{i}.layer_norm2.",
     "backbone.language_backbone.encoder.transformer.{i}.pre_norm_ffn.0."},
    {"text_encoder.layers.{i}.mlp.fc1.",
     "backbone.language_backbone.encoder.transformer.{i}.pre_norm_ffn.1."},
    {"text_encoder.layers.{i}.mlp.fc2.",
     "backbone.language_backbone.encoder.transformer.{i}.pre_norm_ffn.4."},
    {"text_encoder.layers.{i}.token_mixer.reference_batchnorm.",
     "backbone.language_backbone.encoder.transformer.{i}.token_mixer.norm.rbr_skip."},
    {"text_encoder.layers.{i}.token_mixer.mixer.batchnorm_skip.",
     "backbone.language_backbone.encoder.transformer.{i}.token_mixer.mixer.rbr_skip."},
    {"text_encoder.layers.{i}.token_mixer.mixer.conv.",
     "backbone.language_backbone.encoder.transformer.{i}.token_mixer.mixer.rbr_conv.0.conv."},
    {"text_encoder.layers.{i}.token_mixer.mixer.batchnorm_conv.",
     "backbone.language_backbone.encoder.transformer.{i}.token_mixer.mixer.rbr_conv.0.bn."},
    {"text_encoder.layers.{i}.conv_feed_forward.depthwise_conv.",
     "backbone.language_backbone.encoder.transformer.{i}.convffn.conv.conv."},
    {"text_encoder.layers.{i}.conv_feed_forward.depthwise_batchnorm.",
     "backbone.language_backbone.encoder.transformer.{i}.convffn.conv.bn."},
    {"text_encoder.layers.{i}.conv_feed_forward.mlp.",
     "backbone.language_backbone.encoder.transformer.{i}.convffn."},
    {"text_encoder.layers.{i}.", "backbone.language_backbone.encoder.transformer.{i}."},
    {"text_encoder.final_layer_norm.", "backbone.language_backbone.encoder.final_layer_norm."},
    {"text_encoder.projection.weight", "backbone.language_backbone.encoder.projection_layer"},
    // Geometry encoder.
    {"geometry_encoder.layers.{i}.layer_norm{i}.", "geometry_encoder.encode.{i}.norm{i}."},
    {"geometry_encoder.layers.{i}.mlp.fc{i}.", "geometry_encoder.encode.{i}.linear{i}."},
    {"geometry_encoder.layers.{i}.self_attn.o_proj.",
     "geometry_encoder.encode.{i}.self_attn.out_proj."},
    {"geometry_encoder.layers.{i}.self_attn.", "geometry_encoder.encode.{i}.self_attn."},
    {"geometry_encoder.layers.{i}.cross_attn.o_proj.",
     "geometry_encoder.encode.{i}.cross_attn_image.out_proj."},
    {"geometry_encoder.layers.{i}.cross_attn.", "geometry_encoder.encode.{i}.cross_attn_image."},
    {"geometry_encoder.vision_layer_norm.", "geometry_encoder.img_pre_norm."},
    {"geometry_encoder.prompt_layer_norm.", "geometry_encoder.norm."},
    {"geometry_encoder.output_layer_norm.", "geometry_encoder.encode_norm."},
    // Fusion encoder.
    {"detr_encoder.layers.{i}.layer_norm{i}.", "transformer.encoder.layers.{i}.norm{i}."},
    {"detr_encoder.layers.{i}.mlp.fc{i}.", "transformer.encoder.layers.{i}.linear{i}."},
    {"detr_encoder.layers.{i}.self_attn.o_proj.",
     "transformer.encoder.layers.{i}.self_attn.out_proj."},
    {"detr_encoder.layers.{i}.self_attn.", "transformer.encoder.layers.{i}.self_attn."},
    {"detr_encoder.layers.{i}.cross_attn.o_proj.",
     "transformer.encoder.layers.{i}.cross_attn_image.out_proj."},
    {"detr_encoder.layers.{i}.cross_attn.", "transformer.encoder.layers.{i}.cross_attn_image."},
    // Decoder.
    {"detr_decoder.layers.{i}.self_attn_layer_norm.", "transformer.decoder.layers.{i}.norm2."},
    {"detr_decoder.layers.{i}.text_cross_attn_layer_norm.",
     "transformer.decoder.layers.{i}.catext_norm."},
    {"detr_decoder.layers.{i}.vision_cross_attn_layer_norm.",
     "transformer.decoder.layers.{i}.norm1."},
    {"detr_decoder.layers.{i}.mlp_layer_norm.", "transformer.decoder.layers.{i}.norm3."},
    {"detr_decoder.layers.{i}.mlp.fc{i}.", "transformer.decoder.layers.{i}.linear{i}."},
    {"detr_decoder.layers.{i}.self_attn.o_proj.",
     "transformer.decoder.layers.{i}.self_attn.out_proj."},
    {"detr_decoder.layers.{i}.self_attn.", "transformer.decoder.layers.{i}.self_attn."},
    {"detr_decoder.layers.{i}.text_cross_attn.o_proj.",
     "transformer.decoder.layers.{i}.ca_text.out_proj."},
    {"detr_decoder.layers.{i}.text_cross_attn.", "transformer.decoder.layers.{i}.ca_text."},
    {"detr_decoder.layers.{i}.vision_cross_attn.o_proj.",
     "transformer.decoder.layers.{i}.cross_attn.out_proj."},
    {"detr_decoder.layers.{i}.vision_cross_attn.", "transformer.decoder.layers.{i}.cross_attn."},
    {"detr_decoder.output_layer_norm.", "transformer.decoder.norm."},
    {"detr_decoder.presence_layer_norm.", "transformer.decoder.presence_token_out_norm."},
    {"detr_decoder.box_head.layer1.", "transformer.decoder.bbox_embed.layers.0."},
    {"detr_decoder.box_head.layer2.", "transformer.decoder.bbox_embed.layers.1."},
    {"detr_decoder.box_head.layer3.", "transformer.decoder.bbox_embed.layers.2."},
    {"detr_decoder.presence_head.layer1.", "transformer.decoder.presence_token_head.layers.0."},
    {"detr_decoder.presence_head.layer2.", "transformer.decoder.presence_token_head.layers.1."},
    {"detr_decoder.presence_head.layer3.", "transformer.decoder.presence_token_head.layers.2."},
    {"detr_decoder.ref_point_head.layer1.", "transformer.decoder.ref_point_head.layers.0."},
    {"detr_decoder.ref_point_head.layer2.", "transformer.decoder.ref_point_head.layers.1."},
    {"detr_decoder.box_rpb_embed_x.layer1.", "transformer.decoder.boxRPB_embed_x.layers.0."},
    {"detr_decoder.box_rpb_embed_x.layer2.", "transformer.decoder.boxRPB_embed_x.layers.1."},
    {"detr_decoder.box_rpb_embed_y.layer1.", "transformer.decoder.boxRPB_embed_y.layers.0."},
    {"detr_decoder.box_rpb_embed_y.layer2.", "transformer.decoder.boxRPB_embed_y.layers.1."},
    {"detr_decoder.", "transformer.decoder."},
    // Masks and scores.
    {"mask_decoder.mask_embedder.", "segmentation_head.mask_predictor.mask_embed."},
    {"mask_decoder.instance_projection.", "segmentation_head.instance_seg_head."},
    {"mask_decoder.semantic_projection.", "segmentation_head.semantic_seg_head."},
    {"mask_decoder.prompt_cross_attn.o_proj.", "segmentation_head.cross_attend_prompt.out_proj."},
    {"mask_decoder.prompt_cross_attn.", "segmentation_head.cross_attend_prompt."},
    {"mask_decoder.prompt_cross_attn_norm.", "segmentation_head.cross_attn_norm."},
    {"mask_decoder.", "segmentation_head."},
    {"dot_product_scoring.text_mlp.layer1.", "dot_prod_scoring.prompt_mlp.layers.0."},
    {"dot_product_scoring.text_mlp.layer2.", "dot_prod_scoring.prompt_mlp.layers.1."},
    {"dot_product_scoring.text_mlp_out_norm.", "dot_prod_scoring.prompt_mlp.out_norm."},
    {"dot_product_scoring.text_proj.", "dot_prod_scoring.prompt_proj."},
    {"dot_product_scoring.query_proj.", "dot_prod_scoring.hs_proj."},
};

// Behind "convs." or "sam2_convs.".
constexpr KeyRow kNeckRows[] = {
    {"0.scale_layers.0.", "0.dconv_2x2_0."}, {"0.scale_layers.2.", "0.dconv_2x2_1."},
    {"1.scale_layers.0.", "1.dconv_2x2."},   {"{i}.proj1.", "{i}.conv_1x1."},
    {"{i}.proj2.", "{i}.conv_3x3."},
};

// From Meta's SAM 2 to the tracker, both behind their prefixes.
constexpr KeyRow kTrackerRows[] = {
    {"memory_attention.", "transformer.encoder."},
    {"memory_encoder.", "maskmem_backbone."},
    {"sam_mask_decoder.transformer.layers.{i}.mlp.layers.0.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.lin1."},
    {"sam_mask_decoder.transformer.layers.{i}.mlp.layers.1.",
     "sam_mask_decoder.transformer.layers.{i}.mlp.lin2."},
};

constexpr std::string_view kPositions = "detector.backbone.vision_backbone.trunk.pos_embed";
constexpr std::string_view kTrackerBegin = "tracker.";
constexpr std::string_view kDetectorModel = "detector_model.", kTrackerModel = "tracker_model.";
constexpr std::string_view kTrackerNeck = "tracker_neck.fpn_layers.";

// The hub's layout. Versions 5 of transformers save the tracker's classes with its prefix before
// all names, and Sam3VideoModel with the prefix twice.
std::string without_outer_prefix(std::string_view name) {
  const auto begins = [&](std::string_view inner) {
    return name.substr(kTrackerModel.size()).starts_with(inner);
  };
  while (name.starts_with(kTrackerModel) &&
         (begins(kTrackerModel) || begins(kDetectorModel) || begins("tracker_neck."))) {
    name.remove_prefix(kTrackerModel.size());
  }
  return std::string(name);
}

void restore_hub_layout(StateDict& state_dict) {
  const auto& tensors = state_dict.tensors();
  const bool bare = std::any_of(tensors.begin(), tensors.end(), [](const TensorEntry& entry) {
    return entry.name.starts_with("prompt_encoder.");
  });
  std::vector<std::string> names;
  for (const TensorEntry& entry : tensors) {
    names.push_back(bare ? mapped_key(kBareTrackerRows, entry.name)
                         : without_outer_prefix(entry.name));
  }
  state_dict.rename(names);
}

std::string detector_name(std::string_view name) {
  constexpr std::string_view kConvs = "backbone.vision_backbone.convs.";
  std::string result = mapped_key(kDetectorRows, name);
  if (result.starts_with(kConvs)) {
    result =
        std::string(kConvs) + mapped_key(kNeckRows, std::string_view(result).substr(kConvs.size()));
  }
  return "detector." + result;
}

std::string tracker_name(std::string_view name) {
  return sam3_tracker_name(mapped_key(sam2_family().hugging_face, name));
}

bool has_blocks(const TensorEntry& entry) { return dtype_numbers(entry.dtype) != 1; }

void transpose_text_projection(StateDict& state_dict) {
  state_dict.transform([](TensorEntry& entry) {
    if (entry.name != kTextProjection || entry.dims.size() != 2 || has_blocks(entry)) return;
    std::swap(entry.dims[0], entry.dims[1]);
    std::swap(entry.strides[0], entry.strides[1]);
  });
}

// What stands behind MobileCLIP's text encoder has another name there.
void name_projector(StateDict& state_dict) {
  constexpr std::string_view kBackbone = "detector.backbone.language_backbone.";
  if (!state_dict.contains(std::string(kBackbone) + "encoder.embedding_layer.weight")) return;
  constexpr KeyRow kRow{"detector.backbone.language_backbone.resizer.",
                        "detector.backbone.language_backbone.projector."};
  respell(state_dict, {&kRow, 1});
}

// base.q_proj.weight, base.k_proj.weight, base.v_proj.weight -> base.in_proj_weight, and where base
// ends with qkv or qkv_proj, base.weight.
void join_attention(StateDict& state_dict) {
  constexpr std::string_view kQueries = "q_proj.", kJoined = "qkv.", kProjected = "qkv_proj.";
  std::vector<std::string> queries;
  for (const TensorEntry& entry : state_dict.tensors()) {
    const bool found = entry.name.find(kQueries) != std::string::npos;
    if (found && entry.name.starts_with("detector.")) queries.push_back(entry.name);
  }
  std::vector<StateDict::Join> joins;
  for (const std::string& name : queries) {
    const std::size_t location = name.find(kQueries);
    const std::string base = name.substr(0, location),
                      tail = name.substr(location + kQueries.size());
    const bool whole = base.ends_with(kJoined) || base.ends_with(kProjected);
    joins.push_back({{name, base + "k_proj." + tail, base + "v_proj." + tail},
                     base + (whole ? "" : "in_proj_") + tail});
  }
  state_dict.join(joins);
}

// transformers' table of positions has no row for the class token.
void drop_class_position(StateDict& state_dict) {
  state_dict.transform([](TensorEntry& entry) {
    if (entry.name != kPositions || entry.dims.size() != 3) return;
    entry.data += entry.strides[1] / dtype_numbers(entry.dtype) * dtype_bytes(entry.dtype);
    --entry.dims[1];
  });
}

bool is_square(std::int64_t count) {
  const auto side = std::llround(std::sqrt(static_cast<double>(count)));
  return side * side == count;
}

// What join_attention has joined.
void split_attention(StateDict& state_dict) {
  constexpr std::string_view kInner = ".in_proj_", kTrunk = ".attn.qkv.";
  std::vector<std::string> wholes;
  for (const TensorEntry& entry : state_dict.tensors()) {
    const bool joined = entry.name.find(kInner) != std::string::npos ||
                        entry.name.find(kTrunk) != std::string::npos;
    if (joined && entry.name.starts_with("detector.")) wholes.push_back(entry.name);
  }
  for (const std::string& name : wholes) {
    const std::size_t tail = name.rfind(name.find(kInner) != std::string::npos ? '_' : '.') + 1;
    std::string base = name.substr(0, tail);
    if (base.ends_with("in_proj_")) base.resize(base.size() - std::string_view("in_proj_").size());
    std::vector<std::string> parts;
    for (const char* const part : {"q_proj.", "k_proj.", "v_proj."}) {
      parts.push_back(base + part + name.substr(tail));
    }
    state_dict.split(name, parts);
  }
}

// Tables and parts that no class of transformers has.
constexpr std::string_view kOnlyMetas[] = {
    "detector.geometry_encoder.points_",
    "detector.backbone.vision_backbone.trunk.blocks.{i}.attn.freqs_cis",
    "detector.backbone.language_backbone.encoder.attn_mask",
};

// The name that transformers gives a tensor, none for what it has not.
std::string hugging_face_name(std::string_view name, const sam3::Sam3Config& config) {
  constexpr std::string_view kDetector = "detector.";
  constexpr std::string_view kConvs = "backbone.vision_backbone.convs.";
  constexpr std::string_view kOtherConvs = "backbone.vision_backbone.sam2_convs.";
  static const std::vector<KeyRow> kDetectorBack = reversed(kDetectorRows);
  static const std::vector<KeyRow> kNeckBack = reversed(kNeckRows);
  static const std::vector<KeyRow> kTrackerBack = reversed(kTrackerRows);
  static const std::vector<KeyRow> kSam2Back = reversed(sam2_family().hugging_face);
  if (name.starts_with(kTrackerBegin)) {
    const std::string sam2_name = mapped_key(kTrackerBack, name.substr(kTrackerBegin.size()));
    return std::string(kTrackerModel) + mapped_key(kSam2Back, sam2_name);
  }
  const bool left_out = std::any_of(std::begin(kOnlyMetas), std::end(kOnlyMetas),
                                    [&](auto pattern) { return matches_key(pattern, name); });
  if (left_out || !name.starts_with(kDetector)) return "";
  const std::string_view inner = name.substr(kDetector.size());
  if (inner.starts_with(kOtherConvs)) {
    if (!config.tracker) return "";
    return std::string(kTrackerNeck) + mapped_key(kNeckBack, inner.substr(kOtherConvs.size()));
  }
  std::string result = mapped_key(kDetectorBack, inner);
  if (inner.starts_with(kConvs)) {
    result = "vision_encoder.neck.fpn_layers." + mapped_key(kNeckBack, inner.substr(kConvs.size()));
  }
  return (config.tracker ? std::string(kDetectorModel) : "") + result;
}

}  // namespace

void sam3_to_hugging_face(StateDict& state_dict, const sam3::Sam3Config& config) {
  transpose_text_projection(state_dict);
  if (config.vision.trunk.pretrain_use_cls_token) drop_class_position(state_dict);
  split_attention(state_dict);
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    const bool turned = entry.name != kTextProjection || !has_blocks(entry);
    names.push_back(turned ? hugging_face_name(entry.name, config) : "");
    if (names.back().empty()) state_dict.skip(entry.name, "transformers has no such tensor");
  }
  state_dict.rename(names);
  unnumber_layers(state_dict);
  if (!config.tracker) return;
  const std::string tracker(kTrackerModel);
  join_points(state_dict, tracker + "prompt_encoder.");
  copy_encoding(state_dict, tracker);
}

void sam3_add_class_position(StateDict& state_dict) {
  static constexpr std::array<std::byte, sizeof(double)> kZero{};  // of any dtype
  state_dict.transform([](TensorEntry& entry) {
    const bool table = entry.name == kPositions && entry.dims.size() == 3 && entry.dims[0] == 1;
    if (!table || !entry.parts.empty() || !is_square(entry.dims[1])) return;
    TensorEntry rows = entry, zeros = entry;
    rows.dims = {entry.dims[1], entry.dims[2]};
    rows.strides = {entry.strides[1], entry.strides[2]};
    if (has_blocks(entry)) zeros.dtype = DType::kF32;
    zeros.dims = {1, entry.dims[2]};
    zeros.strides = {0, 0};
    zeros.data = kZero.data();
    ++entry.dims[1];
    entry.strides.clear();
    entry.data = nullptr;
    entry.parts = {zeros, rows};
  });
}

std::string sam3_tracker_name(std::string_view sam2_name) {
  return "tracker." + mapped_key(kTrackerRows, sam2_name);
}

std::string sam3_meta_name(std::string_view name) {
  if (name.starts_with(kDetectorModel)) return detector_name(name.substr(kDetectorModel.size()));
  if (name.starts_with(kTrackerNeck)) {
    return "detector.backbone.vision_backbone.sam2_convs." +
           mapped_key(kNeckRows, name.substr(kTrackerNeck.size()));
  }
  if (!name.starts_with(kTrackerModel)) return std::string(name);
  const std::string_view inner = name.substr(kTrackerModel.size());
  return tracker_name(inner == kEncodingCopy ? kEncodingName : inner);
}

void sam3_from_hugging_face(StateDict& state_dict) {
  restore_hub_layout(state_dict);
  const std::string tracker(kTrackerModel);
  drop_copy(state_dict, tracker + std::string(kEncodingCopy), tracker + std::string(kEncodingName));
  number_layers(state_dict);
  const auto& tensors = state_dict.tensors();
  // The detector names its tensors without the prefix when it is saved alone.
  const bool whole = std::any_of(tensors.begin(), tensors.end(), [](const TensorEntry& entry) {
    return entry.name.starts_with(kDetectorModel);
  });
  std::vector<std::string> names;
  for (const TensorEntry& entry : tensors) {
    names.push_back(whole ? sam3_meta_name(entry.name) : detector_name(entry.name));
  }
  state_dict.rename(names);
  transpose_text_projection(state_dict);
  name_projector(state_dict);
  join_attention(state_dict);
  const std::string prompt_encoder = "tracker.sam_prompt_encoder.";
  if (state_dict.contains(prompt_encoder + "point_embed.weight")) {
    split_points(state_dict, prompt_encoder);
  }
}

}  // namespace sam_rlx
