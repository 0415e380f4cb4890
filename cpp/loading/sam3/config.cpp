#include "loading/sam3/config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"
#include "loading/hugging_face_config.h"
#include "loading/preprocessor.h"
#include "loading/releases.h"
#include "loading/sam2/heads_config.h"
#include "loading/sam3/names.h"
#include "loading/sizes_text.h"
#include "loading/trunks.h"

namespace sam_rlx {
namespace {

constexpr std::string_view kTracker = "tracker.";
const std::string kMultiplex = "tracker.model.";  // SAM 3.1's tracker
const std::string kVisionBackbone = "detector.backbone.vision_backbone.";
constexpr std::int64_t kMaxGrid = 512;
// What the tracker does not need.
constexpr std::string_view kDetectorParts[] = {
    "detector.backbone.language_backbone.", "detector.backbone.vision_backbone.convs.",
    "detector.geometry_encoder.",           "detector.transformer.",
    "detector.segmentation_head.",          "detector.dot_prod_scoring.",
};

// ---------------------------------------------------------------- sizes that fit each other

bool student_fits(const sam3::ViTConfig& c) {
  const auto& rep_vit = c.student->rep_vit;
  return c.img_size % c.patch_size == 0 && c.grid() <= kMaxGrid &&
         (!rep_vit || (rep_vit->image_size == c.img_size && rep_vit->in_chans == c.in_chans));
}

bool trunk_fits(const sam3::ViTConfig& c) {
  if (c.student) return student_fits(c);
  const std::vector<std::int64_t>& blocks = c.global_att_blocks;
  const bool ascending =
      std::adjacent_find(blocks.begin(), blocks.end(), std::greater_equal<>()) == blocks.end();
  return c.img_size % c.patch_size == 0 && c.pretrain_img_size % c.patch_size == 0 &&
         c.grid() <= kMaxGrid && c.table_grid() >= 1 && c.table_grid() <= kMaxGrid &&
         c.embed_dim % c.num_heads == 0 && c.head_dim() % 4 == 0 && c.mlp_dim() >= 1 &&
         (c.output_last_block || !blocks.empty()) && ascending &&
         (blocks.empty() || blocks.back() < c.depth);
}

// The detector and the tracker take maps of 4, 2 and 1 times the trunk's sides.
bool neck_fits(const sam3::VisionConfig& c) {
  const std::vector<double>& factors = c.neck.scale_factors;
  const auto known = [](double f) { return f == 4.0 || f == 2.0 || f == 1.0 || f == 0.5; };
  return factors.size() >= 3 && factors.size() <= 8 && factors[0] == 4.0 && factors[1] == 2.0 &&
         factors[2] == 1.0 && std::all_of(factors.begin(), factors.end(), known) &&
         c.neck.num_levels() == 3 && c.trunk.embed_dim % 4 == 0;
}

bool detector_fits(const sam3::Sam3Config& c) {
  if (!c.has_detector) return true;
  return c.text.width % c.text.heads == 0 && c.detector.d_model % 8 == 0 &&
         c.detector.d_model % c.detector.num_heads == 0;
}

void check_sizes(const sam3::Sam3Config& config, const char* where) {
  if (trunk_fits(config.vision.trunk) && neck_fits(config.vision) && detector_fits(config)) return;
  fail<CheckpointError>(where, "sizes that divide each other as in SAM 3", sizes_text_of(config));
}

// ---------------------------------------------------------------- parts

bool any_begins_with(const StateDict& state_dict, std::string_view begin) {
  const auto& tensors = state_dict.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const TensorEntry& entry) { return entry.name.starts_with(begin); });
}

bool has_detector(const StateDict& state_dict) {
  if (!any_begins_with(state_dict, kTracker)) return true;
  for (const std::string_view part : kDetectorParts) {
    if (any_begins_with(state_dict, part)) return true;
  }
  return false;
}

bool has_multiplex(const StateDict& state_dict) { return any_begins_with(state_dict, kMultiplex); }

// SAM 3.1's necks have three levels; so has a detector of it alone.
bool is_3_1(const StateDict& state_dict) {
  const bool three = state_dict.contains(kVisionBackbone + "convs.2.conv_1x1.weight") &&
                     !any_begins_with(state_dict, kVisionBackbone + "convs.3.");
  return has_multiplex(state_dict) || three;
}

// ---------------------------------------------------------------- student

const std::string kStudent = kVisionBackbone + "trunk.model.";  // EfficientSAM3's trunk

// For the side of the release; another one may be set.
std::optional<sam3::StudentConfig> student_of(const StateDict& state_dict) {
  const std::string backbone = kStudent + "backbone.model.";
  sam3::StudentConfig student;
  if (any_begins_with(state_dict, backbone + "features.")) {
    student.rep_vit = listed_rep_vit_of(state_dict, backbone);
    student.rep_vit->image_size = sam3::ViTConfig().img_size;
  } else if (any_begins_with(state_dict, backbone + "patch_embed.")) {
    student.tiny_vit = tiny_vit_of(state_dict, backbone);
    student.tiny_vit->halves_all = true;
  } else {
    return std::nullopt;
  }
  return student;
}

// Of the network instead of ViT: its sizes are what the tensors tell.
constexpr const char* kStudentText = "a student of SAM 3's trunk";

// ---------------------------------------------------------------- metadata

// Files of this project's training have all fields on one level, with upstream's names.
constexpr KeyRow kFileNames[] = {
    {"text.width", "text_width"}, {"text.heads", "text_heads"}, {"text.layers", "text_layers"},
    {"pixel_mean", "image_mean"}, {"pixel_std", "image_std"},
};

sam3::Sam3Config config_from_file(const ConfigReader& reader, const StateDict& state_dict) {
  sam3::Sam3Config config;
  config.variant = variant_in(state_dict);
  config.has_detector = has_detector(state_dict);
  sam3::ViTConfig& trunk = config.vision.trunk;
  trunk.student = student_of(state_dict);
  visit_fields(config, reader);
  if (trunk.student && trunk.student->rep_vit) trunk.student->rep_vit->image_size = trunk.img_size;
  check_sizes(config, ConfigReader::kWhere);
  return config;
}

// ---------------------------------------------------------------- tensors

const std::string kText = "detector.backbone.language_backbone.encoder.";

// MobileCLIP's text encoder, of SAM3-LiteText.
bool has_mobile_clip(const StateDict& state_dict) {
  return state_dict.contains(kText + "embedding_layer.weight");
}

std::string token_table(const StateDict& state_dict) {
  return kText +
         (has_mobile_clip(state_dict) ? "embedding_layer.weight" : "token_embedding.weight");
}

// Its tensors tell all but the heads, which have 64 channels each in every release.
sam3::TextEncoderConfig mobile_clip_of(const StateDict& state_dict) {
  const auto size = [&](const std::string& name, std::size_t rank, std::size_t axis) {
    return size_of(required_tensor(state_dict, kText + name, rank), axis);
  };
  const auto has = [&](std::int64_t layer, const char* part) {
    return state_dict.contains(kText + "transformer." + std::to_string(layer) + part);
  };
  constexpr const char* kMixer = ".token_mixer.layer_scale";
  sam3::TextEncoderConfig text;
  text.mobile_clip = true;
  text.width = size("embedding_layer.weight", 2, 1);
  text.vocab_size = size("embedding_layer.weight", 2, 0);
  text.context_length = size("positional_embedding.pos_embed.pos_embed", 4, 2);
  text.heads = std::max<std::int64_t>(1, text.width / 64);
  text.layers = 0;
  while (has(text.layers, ".pre_norm_mha.0.weight") || has(text.layers, kMixer)) ++text.layers;
  if (has(0, kMixer)) {
    text.repmixer_size = size("transformer.0.token_mixer.mixer.rbr_conv.0.conv.weight", 4, 3);
  }
  text.d_model = size_of(
      required_tensor(state_dict, "detector.backbone.language_backbone.projector.weight", 2), 0);
  return text;
}

std::string sizes_text(const StateDict& state_dict) {
  const std::string backbone = "detector.backbone.", trunk = backbone + "vision_backbone.trunk.";
  const std::string layers = "detector.transformer.";
  const auto size = [&](const std::string& name, std::size_t rank, std::size_t axis) {
    return std::to_string(size_of(required_tensor(state_dict, name, rank), axis));
  };
  const auto count = [&](const std::string& begin) {
    return std::to_string(count_of(state_dict, begin, ".norm1.weight"));
  };
  const std::string sizes =
      student_of(state_dict) ? kStudentText
                             : "trunk of width " + size(trunk + "patch_embed.proj.weight", 4, 0) +
                                   " with " + count(trunk + "blocks.") + " blocks";
  if (!has_detector(state_dict)) return sizes;
  return sizes + ", text of width " + size(token_table(state_dict), 2, 1) + ", detector of width " +
         size(layers + "decoder.query_embed.weight", 2, 1) + " with " +
         count(layers + "encoder.layers.") + " and " + count(layers + "decoder.layers.") +
         " layers";
}

std::string sizes_text(const sam3::Sam3Config& c) {
  const std::string sizes = c.vision.trunk.student
                                ? kStudentText
                                : "trunk of width " + std::to_string(c.vision.trunk.embed_dim) +
                                      " with " + std::to_string(c.vision.trunk.depth) + " blocks";
  if (!c.has_detector) return sizes;
  return sizes + ", text of width " + std::to_string(c.text.width) + ", detector of width " +
         std::to_string(c.detector.d_model) + " with " + std::to_string(c.detector.encoder_layers) +
         " and " + std::to_string(c.detector.decoder_layers) + " layers";
}

std::string released_variant() { return std::string(sam3::releases().front().variant); }

// The sizes of the release, of the parts that the file has.
sam3::Sam3Config released_parts(const StateDict& state_dict) {
  sam3::Sam3Config config;
  config.variant = released_variant();
  config.has_detector = has_detector(state_dict);
  if (is_3_1(state_dict)) config.use_3_1();
  if (has_mobile_clip(state_dict)) {
    config.text = mobile_clip_of(state_dict);
    config.variant = "litetext";
  }
  config.vision.trunk.student = student_of(state_dict);
  if (config.vision.trunk.student) config.variant = "efficientsam3";
  return config;
}

sam3::Sam3Config config_from_tensors(const StateDict& state_dict) {
  const sam3::Sam3Config config = released_parts(state_dict);
  const std::string expected = sizes_text(config), found = sizes_text(state_dict);
  if (found != expected) {
    fail<CheckpointError>(state_dict.source,
                          "the sizes of the released SAM 3, or a config in the metadata", found);
  }
  return config;
}

// ---------------------------------------------------------------- config.json

// transformers' Sam3VisionConfig.
constexpr KeyRow kHuggingFaceVision[] = {
    {"vision.trunk.img_size", "backbone_config.image_size"},
    {"vision.trunk.pretrain_img_size", "backbone_config.pretrain_image_size"},
    {"vision.trunk.patch_size", "backbone_config.patch_size"},
    {"vision.trunk.in_chans", "backbone_config.num_channels"},
    {"vision.trunk.embed_dim", "backbone_config.hidden_size"},
    {"vision.trunk.depth", "backbone_config.num_hidden_layers"},
    {"vision.trunk.num_heads", "backbone_config.num_attention_heads"},
    {"vision.trunk.window_size", "backbone_config.window_size"},
    {"vision.trunk.global_att_blocks", "backbone_config.global_attn_indexes"},
    {"vision.neck.d_model", "fpn_hidden_size"},
    {"vision.neck.scale_factors", "scale_factors"},
};
// Sam3Config. Its parts have one width, one number of heads and one hidden width here.
constexpr KeyRow kHuggingFaceDetector[] = {
    {"text.d_model", "detr_encoder_config.hidden_size"},
    {"text.width", "text_config.hidden_size"},
    {"text.heads", "text_config.num_attention_heads"},
    {"text.layers", "text_config.num_hidden_layers"},
    {"text.context_length", "text_config.max_position_embeddings"},
    {"text.vocab_size", "text_config.vocab_size"},
    {"detector.d_model", "detr_encoder_config.hidden_size"},
    {"detector.nheads", "detr_encoder_config.num_attention_heads"},
    {"detector.dim_feedforward", "detr_encoder_config.intermediate_size"},
    {"detector.geometry_layers", "geometry_encoder_config.num_layers"},
    {"detector.encoder_layers", "detr_encoder_config.num_layers"},
    {"detector.decoder_layers", "detr_decoder_config.num_layers"},
    {"detector.num_queries", "detr_decoder_config.num_queries"},
    {"detector.roi_size", "geometry_encoder_config.roi_size"},
    {"detector.upsampling_stages", "mask_decoder_config.num_upsampling_stages"},
};

// What the tensors tell, too.
template <class Io>
void told_settings(Io& folder, const StateDict& state_dict) {
  const std::string backbone = "detector.backbone.", trunk = backbone + "vision_backbone.trunk.";
  const auto compare_size = [&](const std::string& key, const std::string& name, std::size_t rank,
                                std::size_t axis) {
    folder.expect(key, size_of(required_tensor(state_dict, name, rank), axis), name);
  };
  const auto compare_count = [&](const std::string& key, const std::string& begin) {
    folder.expect(key, count_of(state_dict, begin + ".", ".norm1.weight"), begin);
  };
  const std::string b = folder.kind().vision + std::string("backbone_config.");
  compare_size(b + "hidden_size", trunk + "patch_embed.proj.weight", 4, 0);
  compare_size(b + "patch_size", trunk + "patch_embed.proj.weight", 4, 3);
  compare_size(b + "intermediate_size", trunk + "blocks.0.mlp.fc1.weight", 2, 0);
  compare_count(b + "num_hidden_layers", trunk + "blocks");
  if (folder.kind().detector == nullptr) return;
  const std::string d = folder.kind().detector;
  const std::string decoder = "detector.transformer.decoder.";
  compare_size(d + "text_config.hidden_size", token_table(state_dict), 2, 1);
  compare_size(d + "text_config.vocab_size", token_table(state_dict), 2, 0);
  if (has_mobile_clip(state_dict)) {
    compare_size(d + "text_config.max_position_embeddings",
                 kText + "positional_embedding.pos_embed.pos_embed", 4, 2);
  } else {
    compare_size(d + "text_config.max_position_embeddings", kText + "positional_embedding", 2, 0);
  }
  compare_size(d + "detr_decoder_config.num_queries", decoder + "query_embed.weight", 2, 0);
  compare_size(d + "detr_decoder_config.hidden_size", decoder + "query_embed.weight", 2, 1);
  compare_count(d + "detr_decoder_config.num_layers", decoder + "layers");
  compare_count(d + "detr_encoder_config.num_layers", "detector.transformer.encoder.layers");
  compare_count(d + "geometry_encoder_config.num_layers", "detector.geometry_encoder.encode");
}

// What has one value here.
template <class Io>
void fixed_settings(Io& folder, const sam3::Sam3Config& config) {
  const std::string v = folder.kind().vision, b = v + "backbone_config.";
  folder.require(b + "hidden_act", "gelu");
  folder.require_none(b + "layer_scale_init_value");
  folder.require(b + "rope_parameters.rope_theta", sam3::ViTConfig::kRopeTheta);
  folder.require_epsilon(b + "layer_norm_eps", 1e-5);
  if (folder.kind().detector == nullptr || !config.has_detector) return;
  const std::string d = folder.kind().detector;
  const sam3::DetectorConfig& detector = config.detector;
  folder.require(v + "fpn_hidden_size", detector.d_model);
  for (const char* const part : {"geometry_encoder_config.", "detr_encoder_config.",
                                 "detr_decoder_config.", "mask_decoder_config."}) {
    folder.require(d + part + "hidden_size", detector.d_model);
    folder.require(d + part + "num_attention_heads", detector.num_heads);
    folder.require(d + part + "intermediate_size", detector.dim_feedforward);
    folder.require(d + part + "hidden_act", "relu");
    folder.require_epsilon(d + part + "layer_norm_eps", 1e-5);
  }
  folder.require(d + "text_config.intermediate_size",
                 sam3::TextEncoderConfig::kMlpRatio * config.text.width);
  folder.require(d + "text_config.hidden_act", "gelu");
  folder.require_epsilon(d + "text_config.layer_norm_eps", 1e-5);
}

// So that mlp_dim() is exactly this.
double mlp_ratio(std::int64_t mlp_dim, std::int64_t embed_dim) {
  const double ratio = static_cast<double>(mlp_dim) / static_cast<double>(embed_dim);
  const bool exact = static_cast<std::int64_t>(static_cast<double>(embed_dim) * ratio) == mlp_dim;
  return exact ? ratio : std::nextafter(ratio, std::numeric_limits<double>::infinity());
}

template <class Io>
void folder_settings(Io& folder, const StateDict& state_dict, sam3::Sam3Config& config) {
  const std::string v = folder.kind().vision;
  sam3::ViTConfig& trunk = config.vision.trunk;
  told_settings(folder, state_dict);
  std::int64_t mlp_dim = trunk.mlp_dim();
  folder.fields(config, kHuggingFaceVision, v);
  if (folder.kind().detector != nullptr) {
    folder.fields(config, kHuggingFaceDetector, folder.kind().detector);
  }
  folder.value(v + "backbone_config.intermediate_size", mlp_dim);
  trunk.mlp_ratio = mlp_ratio(mlp_dim, trunk.embed_dim);
  folder.check(config);
  fixed_settings(folder, config);
}

sam3::Sam3Config config_from_folder(const FolderReader& folder, const StateDict& state_dict) {
  sam3::Sam3Config config = released_parts(state_dict);
  folder_settings(folder, state_dict, config);
  sam3::ViTConfig& trunk = config.vision.trunk;
  const std::vector<std::int64_t>& global = trunk.global_att_blocks;
  trunk.output_last_block = global.empty() || global.back() != trunk.depth - 1;
  check_sizes(config, FolderReader::kWhere);
  const sam3::Sam3Config release = released_parts(state_dict);
  config.variant = sizes_text(config) == sizes_text(release) ? release.variant : "custom";
  return config;
}

sam3::Sam3Config config_without_folder(const StateDict& state_dict) {
  const std::optional<ConfigReader> reader = config_in(state_dict, kFileNames);
  return reader ? config_from_file(*reader, state_dict) : config_from_tensors(state_dict);
}

// ---------------------------------------------------------------- the rest

// What transformers and files for clicks and videos alone leave out.
void read_optional_parts(const StateDict& state_dict, sam3::Sam3Config& config) {
  sam3::ViTConfig& trunk = config.vision.trunk;
  const TensorEntry* const table =
      state_dict.find("detector.backbone.vision_backbone.trunk.pos_embed");
  const std::size_t rows_axis =
      table == nullptr || table->dims.size() < 2 ? 0 : table->dims.size() - 2;
  trunk.pretrain_use_cls_token = table == nullptr || table->dims.size() < 2 ||
                                 table->dims[rows_axis] != trunk.table_grid() * trunk.table_grid();
  // Some files of EfficientSAM3 take texts alone.
  config.detector.geometry =
      !trunk.student || any_begins_with(state_dict, "detector.geometry_encoder.");
  config.detector.encode_points = any_begins_with(state_dict, "detector.geometry_encoder.points_");
}

void read_multiplex(const StateDict& state_dict, sam3::Sam3Config& config) {
  config.use_multiplex();
  sam3::MultiplexConfig& multiplex = *config.multiplex;
  const auto size = [&](const std::string& name, std::size_t rank, std::size_t axis) {
    return size_of(required_tensor(state_dict, kMultiplex + name, rank), axis);
  };
  multiplex.multiplex_count = size("output_valid_embed", 2, 0);
  multiplex.num_maskmem = size("maskmem_tpos_enc", 4, 0);
  sam3::MultiplexMaskDecoderConfig& decoder = multiplex.mask_decoder;
  const std::string layers = "sam_mask_decoder.transformer.layers.";
  const std::string iou = "sam_mask_decoder.iou_prediction_head.layers.";
  decoder.transformer.embedding_dim = size("sam_mask_decoder.iou_token.weight", 2, 1);
  decoder.transformer.depth = count_of(state_dict, kMultiplex + layers, ".norm1.weight");
  decoder.transformer.mlp_dim = size(layers + "0.mlp.lin1.weight", 2, 0);
  decoder.num_multimask_outputs = size("sam_mask_decoder.mask_tokens.weight", 2, 0) /
                                  std::max<std::int64_t>(1, multiplex.multiplex_count);
  decoder.iou_head_depth = count_of(state_dict, kMultiplex + iou, ".weight");
  decoder.iou_head_hidden_dim = size(iou + "0.weight", 2, 0);
  sam3::MultiplexMemoryEncoderConfig& encoder = multiplex.memory_encoder;
  encoder.starting_out_chan = size("maskmem_backbone.mask_downsampler.encoder.0.weight", 4, 0) / 4;
  encoder.fuser_layers =
      count_of(state_dict, kMultiplex + "maskmem_backbone.fuser.layers.", ".gamma");
  sam3::MultiplexAttentionConfig& attention = multiplex.memory_attention;
  const std::string blocks = "transformer.encoder.layers.";
  attention.num_layers = count_of(state_dict, kMultiplex + blocks, ".norm1.weight");
  attention.dim_feedforward = size(blocks + "0.linear1.weight", 2, 0);
  attention.feat_size = config.vision.trunk.grid();
  visit_fields(multiplex, CheckFields{state_dict.source}, "multiplex.");
  const std::int64_t inner = multiplex.d_model() / decoder.transformer.attention_downsample_rate;
  if (multiplex.d_model() == config.vision.neck.d_model && multiplex.d_model() % 8 == 0 &&
      inner % decoder.transformer.num_heads == 0 &&
      multiplex.d_model() % (4 * attention.num_heads) == 0) {
    return;
  }
  fail<CheckpointError>(state_dict.source, "a tracker of sizes as in SAM 3.1",
                        sizes_text_of(multiplex));
}

void read_tracker(const StateDict& state_dict, const std::optional<FolderReader>& folder,
                  sam3::Sam3Config& config) {
  if (!any_begins_with(state_dict, kTracker)) return;
  config.vision.neck.add_sam2_neck = true;
  const bool multiplex = has_multiplex(state_dict);
  if (multiplex) read_multiplex(state_dict, config);
  sam2::HeadsConfig heads = sam3::tracker_heads(config.vision);
  const HeadsNames names{.prefix = multiplex ? kMultiplex + "interactive_" : std::string(kTracker),
                         .memory_attention = "transformer.encoder.",
                         .memory_encoder = "maskmem_backbone.",
                         .first_linear = "mlp.lin1."};
  read_heads(state_dict, names, heads);
  if (!state_dict.metadata.contains("config")) {
    check_released_heads(heads, names, state_dict.source);
  }
  if (folder && folder->kind().heads != nullptr) read_heads_settings(*folder, heads);
  if (multiplex) sam3::make_interactive(heads, *config.multiplex);
  visit_fields(heads, CheckFields{state_dict.source}, "tracker.");
  if (!heads_fit(heads, config.vision.neck.d_model)) {
    fail<CheckpointError>(state_dict.source, "a tracker of sizes as in SAM 3",
                          sizes_text_of(heads));
  }
  config.tracker = heads;
}

}  // namespace

Json sam3_folder_config(const StateDict& state_dict, sam3::Sam3Config config) {
  const bool memory = config.tracker && config.tracker->memory;
  if (config.version() != "3.0") {
    fail<UnsupportedError>(state_dict.source, "SAM 3, for a folder of transformers", "SAM 3.1");
  }
  if (config.vision.trunk.student) {
    fail<UnsupportedError>(state_dict.source, "SAM 3's trunk, for a folder of transformers",
                           "a student of it (EfficientSAM3)");
  }
  if (config.has_detector && config.text.mobile_clip) {
    fail<UnsupportedError>(state_dict.source, "SAM 3's text encoder, for a folder of transformers",
                           "MobileCLIP's");
  }
  if (config.has_detector && config.tracker && !memory) {
    fail<UnsupportedError>(state_dict.source, "parts of one class of transformers",
                           "a detector and a tracker without memory");
  }
  const char* const alone = memory ? "sam3_tracker_video" : "sam3_tracker";
  const char* const whole = config.tracker ? "sam3_video" : "sam3";
  FolderWriter folder(config.has_detector ? whole : alone);
  const std::string vision = folder.kind().vision;
  folder.value(vision + "model_type", "sam3_vision_model");
  folder.value(vision + "backbone_config.model_type", "sam3_vit_model");
  folder_settings(folder, state_dict, config);
  folder.value(vision + "backbone_feature_sizes", feature_sizes(config.vision.trunk.grid()));
  if (config.has_detector) {
    const std::string detector = folder.kind().detector;
    folder.value(detector + "model_type", "sam3");
    folder.value(detector + "text_config.model_type", "clip_text_model");
    if (const TensorEntry* const entry = state_dict.find(kTextProjection)) {
      folder.value(detector + "text_config.projection_dim", size_of(*entry, 1));
    }
  }
  if (config.tracker) write_heads_settings(folder, *config.tracker);
  if (config.tracker && config.has_detector) {
    // The tracker has a copy of the trunk's settings.
    const std::string tracker = folder.kind().heads;
    folder.value(tracker + "model_type", "sam3_tracker_video");
    folder.copy(vision, tracker + "vision_config.");
  }
  return folder.json();
}

sam3::Sam3Config sam3_config_of(const StateDict& state_dict,
                                const std::optional<std::string>& variant) {
  const std::optional<FolderReader> folder = FolderReader::in(state_dict, "sam3");
  sam3::Sam3Config found =
      folder ? config_from_folder(*folder, state_dict) : config_without_folder(state_dict);
  read_optional_parts(state_dict, found);
  // The config names no variant where another program wrote it.
  const bool named =
      !state_dict.metadata.contains("config") || state_dict.metadata.contains("variant");
  const sam3::Sam3Config release = released_parts(state_dict);
  if (!named && sizes_text(found) == sizes_text(release)) found.variant = release.variant;
  read_tracker(state_dict, folder, found);
  read_preprocessor(
      state_dict,
      {.mean = found.pixel_mean, .std = found.pixel_std, .side = found.vision.trunk.img_size});
  if (!variant || *variant == found.variant) return found;
  release_named(sam3::releases(), *variant);
  fail<CheckpointError>("variant " + *variant, sizes_text(sam3::Sam3Config()),
                        sizes_text(found) + " (the file is " + printable(found.variant) + ")");
}

}  // namespace sam_rlx
