#include "loading/sam3cpp.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/json.h"
#include "checkpoint/text.h"
#include "core/error.h"
#include "layers/fields.h"
#include "loading/config_reader.h"
#include "loading/key_map.h"
#include "loading/sam3/names.h"

namespace sam_rlx {
namespace {

// ---------------------------------------------------------------- names

constexpr KeyRow kSam2Rows[] = {
    {"hiera.patch_embed.", "image_encoder.trunk.patch_embed.proj."},
    {"hiera.blocks.{i}.mlp.fc1.", "image_encoder.trunk.blocks.{i}.mlp.layers.0."},
    {"hiera.blocks.{i}.mlp.fc2.", "image_encoder.trunk.blocks.{i}.mlp.layers.1."},
    {"hiera.", "image_encoder.trunk."},
    {"repvit.stem.", "image_encoder.trunk.body.stem."},
    {"repvit.stages.{i}.blocks.{i}.tm.",
     "image_encoder.trunk.body.stages_{i}.blocks.{i}.token_mixer."},
    {"repvit.stages.{i}.blocks.{i}.cm.",
     "image_encoder.trunk.body.stages_{i}.blocks.{i}.channel_mixer."},
    {"repvit.stages.{i}.ds.pre.tm.",
     "image_encoder.trunk.body.stages_{i}.downsample.pre_block.token_mixer."},
    {"repvit.stages.{i}.ds.pre.cm.",
     "image_encoder.trunk.body.stages_{i}.downsample.pre_block.channel_mixer."},
    {"repvit.stages.{i}.ds.spatial.",
     "image_encoder.trunk.body.stages_{i}.downsample.spatial_downsample."},
    {"repvit.stages.{i}.ds.channel.",
     "image_encoder.trunk.body.stages_{i}.downsample.channel_downsample."},
    {"repvit.stages.{i}.ds.", "image_encoder.trunk.body.stages_{i}.downsample."},
    {"repvit.stages.{i}.", "image_encoder.trunk.body.stages_{i}."},
    {"perceiver.layers.{i}.ca.q.", "spatial_perceiver.layers.{i}.attn.to_q."},
    {"perceiver.layers.{i}.ca.kv.", "spatial_perceiver.layers.{i}.attn.to_kv."},
    {"perceiver.layers.{i}.ca.out.", "spatial_perceiver.layers.{i}.attn.to_out."},
    {"perceiver.layers.{i}.ca.", "spatial_perceiver.layers.{i}.attn."},
    {"perceiver.layers.{i}.sa.q.", "spatial_perceiver.layers.{i}.self_attn.to_q."},
    {"perceiver.layers.{i}.sa.kv.", "spatial_perceiver.layers.{i}.self_attn.to_kv."},
    {"perceiver.layers.{i}.sa.out.", "spatial_perceiver.layers.{i}.self_attn.to_out."},
    {"perceiver.layers.{i}.sa.", "spatial_perceiver.layers.{i}.self_attn."},
    {"perceiver.layers.{i}.ff.norm.", "spatial_perceiver.layers.{i}.ff.0."},
    {"perceiver.layers.{i}.ff.fc1.", "spatial_perceiver.layers.{i}.ff.1."},
    {"perceiver.layers.{i}.ff.fc2.", "spatial_perceiver.layers.{i}.ff.3."},
    {"perceiver.layers.{i}.sa_ff.norm.", "spatial_perceiver.layers.{i}.self_ff.0."},
    {"perceiver.layers.{i}.sa_ff.fc1.", "spatial_perceiver.layers.{i}.self_ff.1."},
    {"perceiver.layers.{i}.sa_ff.fc2.", "spatial_perceiver.layers.{i}.self_ff.3."},
    {"perceiver.", "spatial_perceiver."},
    {"fpn.convs.{i}.", "image_encoder.neck.convs.{i}.conv."},
};

// From the names of decoder and memory to those of SAM 2.
constexpr KeyRow kHeadsRows[] = {
    {"sam_pe.pe_gaussian", "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"sam_pe.mask_ds.", "sam_prompt_encoder.mask_downscaling."},
    {"sam_pe.", "sam_prompt_encoder."},
    {"sam_dec.twoway.{i}.mlp.lin1.", "sam_mask_decoder.transformer.layers.{i}.mlp.layers.0."},
    {"sam_dec.twoway.{i}.mlp.lin2.", "sam_mask_decoder.transformer.layers.{i}.mlp.layers.1."},
    {"sam_dec.twoway.{i}.sa.", "sam_mask_decoder.transformer.layers.{i}.self_attn."},
    {"sam_dec.twoway.", "sam_mask_decoder.transformer.layers."},
    {"sam_dec.final_attn.", "sam_mask_decoder.transformer.final_attn_token_to_image."},
    {"sam_dec.final_norm.", "sam_mask_decoder.transformer.norm_final_attn."},
    {"sam_dec.upscale.", "sam_mask_decoder.output_upscaling."},
    {"sam_dec.hyper.", "sam_mask_decoder.output_hypernetworks_mlps."},
    {"sam_dec.", "sam_mask_decoder."},
    {"mem_enc.tpos_enc", "maskmem_tpos_enc"},
    {"mem_enc.ds.", "memory_encoder.mask_downsampler.encoder."},
    {"mem_enc.fuser.", "memory_encoder.fuser.layers."},
    {"mem_enc.", "memory_encoder."},
    {"mem_attn.layers.{i}.sa.", "memory_attention.layers.{i}.self_attn."},
    {"mem_attn.layers.{i}.ca.", "memory_attention.layers.{i}.cross_attn_image."},
    {"mem_attn.", "memory_attention."},
    {"trk_mask_ds.", "mask_downsample."},
};

constexpr KeyRow kDetectorRows[] = {
    {"vit.blocks.{i}.mlp.lin1.", "detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.fc1."},
    {"vit.blocks.{i}.mlp.lin2.", "detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.fc2."},
    {"vit.", "detector.backbone.vision_backbone.trunk."},
    {"neck.det.", "detector.backbone.vision_backbone.convs."},
    {"neck.trk.", "detector.backbone.vision_backbone.sam2_convs."},
    {"text.blocks.{i}.attn.in_proj.weight",
     "detector.backbone.language_backbone.encoder.transformer.resblocks.{i}.attn.in_proj_weight"},
    {"text.blocks.{i}.attn.in_proj.bias",
     "detector.backbone.language_backbone.encoder.transformer.resblocks.{i}.attn.in_proj_bias"},
    {"text.blocks.{i}.mlp.fc1.",
     "detector.backbone.language_backbone.encoder.transformer.resblocks.{i}.mlp.c_fc."},
    {"text.blocks.{i}.mlp.fc2.",
     "detector.backbone.language_backbone.encoder.transformer.resblocks.{i}.mlp.c_proj."},
    {"text.blocks.", "detector.backbone.language_backbone.encoder.transformer.resblocks."},
    {"text.token_embed.", "detector.backbone.language_backbone.encoder.token_embedding."},
    {"text.pos_embed", "detector.backbone.language_backbone.encoder.positional_embedding"},
    {"text.resizer.", "detector.backbone.language_backbone.resizer."},
    {"text.", "detector.backbone.language_backbone.encoder."},
    {"fenc.layers.{i}.sa.", "detector.transformer.encoder.layers.{i}.self_attn."},
    {"fenc.layers.{i}.ca.", "detector.transformer.encoder.layers.{i}.cross_attn_image."},
    {"fenc.", "detector.transformer.encoder."},
    {"ddec.layers.{i}.sa.", "detector.transformer.decoder.layers.{i}.self_attn."},
    {"ddec.layers.{i}.ca.", "detector.transformer.decoder.layers.{i}.cross_attn."},
    {"ddec.layers.{i}.norm_ca_text.", "detector.transformer.decoder.layers.{i}.catext_norm."},
    {"ddec.", "detector.transformer.decoder."},
    {"geom.layers.{i}.sa.", "detector.geometry_encoder.encode.{i}.self_attn."},
    {"geom.layers.{i}.ca.", "detector.geometry_encoder.encode.{i}.cross_attn_image."},
    {"geom.layers.", "detector.geometry_encoder.encode."},
    {"geom.", "detector.geometry_encoder."},
    {"seg.", "detector.segmentation_head."},
    {"scoring.", "detector.dot_prod_scoring."},
    {"det.", "detector."},
    {"trk.", "tracker."},
};

template <class Name>
void rename_all(StateDict& state_dict, const Name& meta_name) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) names.push_back(meta_name(entry.name));
  state_dict.rename(names);
}

// ---------------------------------------------------------------- axes

// ggml writes GGUF files without outermost axes of 1: these tensors get them back. Patterns of
// matches_key.
struct RankRow {
  std::string_view name;
  std::size_t rank;
};

constexpr RankRow kTrunkRanks[] = {{"image_encoder.trunk.pos_embed", 4}};  // and pos_embed_window

constexpr RankRow kHeadsRanks[] = {
    {"sam_prompt_encoder.point_embeddings.{i}.weight", 2},
    {"sam_prompt_encoder.not_a_point_embed.weight", 2},
    {"sam_prompt_encoder.no_mask_embed.weight", 2},
    {"sam_mask_decoder.iou_token.weight", 2},
    {"sam_mask_decoder.obj_score_token.weight", 2},
    {"sam_mask_decoder.pred_obj_score_head.layers.{i}.weight", 2},
    {"maskmem_tpos_enc", 4},
    {"no_mem_embed", 3},
    {"no_mem_pos_enc", 3},
    {"no_obj_ptr", 2},
    {"no_obj_embed_spatial", 2},
    {"mask_downsample.weight", 4},
};

constexpr RankRow kDetectorRanks[] = {
    {"detector.transformer.decoder.presence_token.weight", 2},
    {"detector.transformer.decoder.presence_token_head.layers.{i}.weight", 2},
    {"detector.geometry_encoder.cls_embed.weight", 2},
    {"detector.segmentation_head.semantic_seg_head.weight", 4},
};

void restore_axes(StateDict& state_dict, std::span<const RankRow> rows, std::string_view prefix) {
  for (const TensorEntry& entry : std::vector<TensorEntry>(state_dict.tensors())) {
    if (!entry.name.starts_with(prefix)) continue;
    const std::string_view inner = std::string_view(entry.name).substr(prefix.size());
    for (const RankRow& row : rows) {
      if (!matches_key(row.name, inner) || entry.dims.size() >= row.rank) continue;
      std::vector<std::int64_t> dims(row.rank - entry.dims.size(), 1);
      dims.insert(dims.end(), entry.dims.begin(), entry.dims.end());
      state_dict.reshape(entry.name, std::move(dims));
    }
  }
}

// ---------------------------------------------------------------- settings

class Settings {
 public:
  explicit Settings(const StateDict& state_dict) : state_dict_(state_dict) {}

  std::string where(const std::string& name) const {
    return state_dict_.source + ": " + kPrefix + name;
  }
  std::optional<std::int64_t> find(const std::string& name) const {
    const auto found = state_dict_.metadata.find(kPrefix + name);
    if (found == state_dict_.metadata.end()) return std::nullopt;
    return Json::parse(found->second, where(name)).integer(where(name));
  }
  std::int64_t operator[](const std::string& name) const {
    const std::optional<std::int64_t> value = find(name);
    if (!value) fail<CheckpointError>(where(name), "a whole number", "none");
    return *value;
  }
  // The first `count` numbers of a list.
  std::vector<std::int64_t> list(const std::string& name, std::int64_t count) const {
    const auto found = state_dict_.metadata.find(kPrefix + name);
    const std::string expected = "a list of at least " + std::to_string(count) + " whole numbers";
    if (found == state_dict_.metadata.end()) fail<CheckpointError>(where(name), expected, "none");
    const Json json = Json::parse(found->second, where(name));
    const Json::Array& items = json.array(where(name));
    if (count < 0 || static_cast<std::size_t>(count) > items.size()) {
      fail<CheckpointError>(where(name), expected, std::to_string(items.size()));
    }
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(items[static_cast<std::size_t>(i)].integer(where(name)));
    }
    return values;
  }

  static constexpr const char* kPrefix = "sam3.hparams.";

 private:
  const StateDict& state_dict_;
};

// The text of a config.
class ConfigText {
 public:
  void add(const char* name, std::int64_t value) { add_text(name, std::to_string(value)); }
  void add(const char* name, double value) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, value);
    add_text(name, {text, end.ptr});
  }
  void add(const char* name, bool value) { add_text(name, value ? "true" : "false"); }
  template <class T>
  void add(const char* name, const std::vector<T>& values) {
    std::string text = "[";
    for (const T& value : values) text += (text.size() == 1 ? "" : ", ") + number_text(value);
    add_text(name, text + "]");
  }
  std::string text() const { return "{" + text_ + "}"; }

 private:
  static std::string number_text(std::int64_t value) { return std::to_string(value); }
  static std::string number_text(double value) { return sam_rlx::number_text(value); }
  void add_text(const char* name, const std::string& value) {
    text_ += (text_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
  }

  std::string text_;
};

// Switches that are on in every release, and here always.
constexpr const char* kAlwaysOn[] = {
    "use_high_res_features",           "use_obj_ptrs_in_encoder",   "pred_obj_scores",
    "use_multimask_token_for_obj_ptr", "directly_add_no_mem_embed", "fixed_no_obj_ptr",
    "iou_prediction_use_sigmoid",      "use_mask_input_as_output",  "multimask_output_in_sam",
};

void check_switches(const Settings& settings, const StateDict& state_dict) {
  for (const char* const name : kAlwaysOn) {
    const std::int64_t value = settings.find(name).value_or(1);
    if (value != 1) fail<UnsupportedError>(settings.where(name), "1", std::to_string(value));
  }
  const bool is_2_1 = state_dict.contains("no_obj_embed_spatial");
  const std::int64_t stated = settings.find("is_sam2_1").value_or(is_2_1 ? 1 : 0);
  if (stated != (is_2_1 ? 1 : 0)) {
    fail<CheckpointError>(settings.where("is_sam2_1"),
                          is_2_1 ? "1, since there is no_obj_embed_spatial"
                                 : "0, since there is no no_obj_embed_spatial",
                          std::to_string(stated));
  }
}

constexpr std::int64_t kHiera = 1, kRepVit = 2;

std::int64_t backbone_of(const Settings& settings) {
  return settings.find("backbone_type").value_or(kHiera);
}

// The rotation table of EdgeTAM's keys is as large as the grid of its local latents.
void check_key_size(const Settings& settings, const StateDict& state_dict) {
  const std::int64_t side = settings["mem_attn_ca_k_size"];
  const std::int64_t latents =
      size_of(required_tensor(state_dict, "spatial_perceiver.latents_2d", 2), 0);
  if (side >= 1 && side <= kMaxConfigSize && side * side == latents) return;
  fail<CheckpointError>(settings.where("mem_attn_ca_k_size"),
                        "the root of " + std::to_string(latents) + ", the number of local latents",
                        std::to_string(side));
}

void add_hiera(ConfigText& config, const Settings& settings) {
  const std::int64_t stages = settings["hiera_num_stages"];
  config.add("embed_dim", settings["hiera_embed_dim"]);
  config.add("num_heads", settings["hiera_num_heads"]);
  config.add("stages", settings.list("hiera_stages", stages));
  config.add("q_pool", settings["hiera_q_pool"]);
  config.add("window_spec", settings.list("hiera_window_spec", stages));
  config.add("global_att_blocks", settings.list("hiera_global_idx", settings["hiera_global_n"]));
  config.add("window_pos_embed_bkg_spatial_size",
             std::vector<std::int64_t>{settings["hiera_pos_embed_bkg_h"],
                                       settings["hiera_pos_embed_bkg_w"]});
}

// binarize_mask_from_pts and non_overlap_masks_for_mem_enc are not taken: upstream's video
// predictor sets the first itself, and both converters write a constant for the other. Sizes of
// RepViT, decoder and memory are those of the tensors.
std::string sam2_config(const Settings& settings) {
  ConfigText config;
  config.add("image_size", settings["img_size"]);
  if (backbone_of(settings) == kHiera) add_hiera(config, settings);
  config.add("d_model", settings["neck_dim"]);
  config.add("fpn_top_down_levels",
             settings.list("fpn_top_down_levels", settings["fpn_top_down_n"]));
  config.add("scalp", settings["scalp"]);
  config.add("max_obj_ptrs_in_encoder", settings["max_obj_ptrs"]);
  constexpr double kHundredth = 100.0;
  config.add("sigmoid_scale_for_mem_enc",
             static_cast<double>(settings["sigmoid_scale_x100"]) / kHundredth);
  config.add("sigmoid_bias_for_mem_enc",
             static_cast<double>(settings["sigmoid_bias_x100"]) / kHundredth);
  config.add("multimask_output_for_tracking", settings["multimask_output_for_tracking"] != 0);
  config.add("multimask_min_pt_num", settings["multimask_min_pt_num"]);
  config.add("multimask_max_pt_num", settings["multimask_max_pt_num"]);
  return config.text();
}

// What the settings do not tell is fixed in their code, or told by the tensors.
std::string sam3_config(const Settings& settings, const StateDict& state_dict) {
  ConfigText config;
  const TensorEntry& table =
      required_tensor(state_dict, "detector.backbone.vision_backbone.trunk.pos_embed", 3);
  const auto side = [&] {  // of the table, which may have one row more
    std::int64_t n = 1;
    while ((n + 1) * (n + 1) <= size_of(table, 1)) ++n;
    return n;
  };
  config.add("img_size", settings["img_size"]);
  config.add("patch_size", settings["patch_size"]);
  config.add("pretrain_img_size", side() * settings["patch_size"]);
  config.add("embed_dim", settings["vit_embed_dim"]);
  config.add("depth", settings["vit_depth"]);
  config.add("num_heads", settings["vit_num_heads"]);
  config.add("mlp_ratio", static_cast<double>(settings["vit_mlp_ratio_x1000"]) / 1000.0);
  config.add("window_size", settings["vit_window_size"]);
  config.add("global_att_blocks", settings.list("global_attn_idx", settings["n_global_attn"]));
  std::vector<double> factors{4.0, 2.0, 1.0, 0.5};  // the last level is computed and left out
  const bool whole =
      state_dict.contains("detector.backbone.vision_backbone.sam2_convs.3.conv_1x1.weight");
  if (!whole) factors.pop_back();
  config.add("scale_factors", factors);
  config.add("scalp", std::int64_t{whole ? 1 : 0});
  config.add("d_model", settings["neck_dim"]);
  config.add("text_width", settings["text_width"]);
  config.add("text_heads", settings["text_heads"]);
  config.add("text_layers", settings["text_layers"]);
  config.add("context_length", settings["text_ctx_len"]);
  config.add("vocab_size", settings["text_vocab_size"]);
  config.add("nheads", settings["ddec_heads"]);
  config.add("dim_feedforward", settings["ddec_ffn_dim"]);
  config.add("geometry_layers", settings["geom_layers"]);
  config.add("encoder_layers", settings["fenc_layers"]);
  config.add("decoder_layers", settings["ddec_layers"]);
  config.add("num_queries", settings["ddec_num_queries"]);
  const std::int64_t stages =
      count_of(state_dict, "detector.segmentation_head.pixel_decoder.conv_layers.", ".weight");
  config.add("upsampling_stages", stages > 0 ? stages : 3);  // none without a detector
  return config.text();
}

}  // namespace

void refuse_sam3cpp_relatives(const StateDict& state_dict) {
  const Settings settings(state_dict);
  const std::int64_t backbone = backbone_of(settings);
  if (backbone == kHiera || backbone == kRepVit) return;
  fail<UnsupportedError>(settings.where("backbone_type"),
                         "1, the trunk of SAM 2, or 2, that of EdgeTAM",
                         "type " + std::to_string(backbone));
}

void sam2_from_sam3cpp(StateDict& state_dict) {
  rename_all(state_dict, [](const std::string& name) {
    const std::optional<std::string> trunk = map_key(kSam2Rows, name);
    return trunk ? *trunk : mapped_key(kHeadsRows, name);
  });
  restore_axes(state_dict, kTrunkRanks, "");
  restore_axes(state_dict, kHeadsRanks, "");
  const Settings settings(state_dict);
  check_switches(settings, state_dict);
  if (backbone_of(settings) == kRepVit) check_key_size(settings, state_dict);
  state_dict.metadata["config"] = sam2_config(settings);
}

void sam3_from_sam3cpp(StateDict& state_dict) {
  constexpr std::string_view kTable = "detector.backbone.vision_backbone.trunk.pos_embed";
  rename_all(state_dict, [](const std::string& name) {
    const std::optional<std::string> detector = map_key(kDetectorRows, name);
    return detector ? *detector : sam3_tracker_name(mapped_key(kHeadsRows, name));
  });
  restore_axes(state_dict, kDetectorRanks, "");
  restore_axes(state_dict, kHeadsRanks, "tracker.");
  // (g, g, C) without the row of the class token.
  const TensorEntry* const table = state_dict.find(kTable);
  if (table != nullptr && table->dims.size() == 3 && table->dims[0] == table->dims[1] &&
      table->dims[0] < kMaxConfigSize) {
    state_dict.reshape(kTable, {1, table->dims[0] * table->dims[1], table->dims[2]});
  }
  state_dict.metadata["config"] = sam3_config(Settings(state_dict), state_dict);
}

}  // namespace sam_rlx
