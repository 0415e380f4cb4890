#include "loading/family.h"

#include <algorithm>

#include "core/error.h"
#include "loading/sam3/config.h"
#include "loading/sam3/names.h"
#include "loading/sam3cpp.h"

namespace sam_rlx {
namespace {

constexpr Sign kSigns[] = {
    {"detector.", Dialect::kMeta},
    {"sam2_predictor.model.", Dialect::kMeta},
    {"backbone.vision_backbone.trunk.pos_embed", Dialect::kMeta},
    {"backbone.visual.trunk.pos_embed", Dialect::kMeta},
    {"backbone.vision_backbone.trunk.model.", Dialect::kMeta},
    {"visual.trunk.ln_pre.", Dialect::kMeta},
    {"trunk.ln_pre.", Dialect::kMeta},
    {"detector_model.", Dialect::kHuggingFace},
    {"tracker_model.", Dialect::kHuggingFace},
    {"vision_encoder.backbone.embeddings.position_embeddings", Dialect::kHuggingFace},
    {"vit.patch_embed.", Dialect::kSam3Cpp},
};

constexpr std::string_view kDecoders[] = {"detector.transformer.", "detector.segmentation_head.",
                                          "tracker."};

constexpr KeyRow kSam3Short[] = {
    {"v.", "detector.backbone.vision_backbone.trunk."},
    {"vn.", "detector.backbone.vision_backbone.convs."},
    {"vn2.", "detector.backbone.vision_backbone.sam2_convs."},
    {"vni.", "detector.backbone.vision_backbone.interactive_convs."},
    {"vnp.", "detector.backbone.vision_backbone.propagation_convs."},
    {"t.projector.", "detector.backbone.language_backbone.projector."},
    {"t.resizer.", "detector.backbone.language_backbone.resizer."},
    {"t.l.{i}.", "detector.backbone.language_backbone.encoder.transformer.resblocks.{i}."},
    {"t.", "detector.backbone.language_backbone.encoder."},
    {"g.", "detector.geometry_encoder."},
    {"fe.", "detector.transformer.encoder."},
    {"fd.", "detector.transformer.decoder."},
    {"s.", "detector.segmentation_head."},
    {"sc.", "detector.dot_prod_scoring."},
    // SAM 3.1.
    {"tm.pe.gauss", "tracker.model.image_pe_layer.positional_encoding_gaussian_matrix"},
    {"tm.p.pe_layer.gauss",
     "tracker.model.interactive_sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"tm.p.", "tracker.model.interactive_sam_prompt_encoder."},
    {"tm.i.l.{i}.", "tracker.model.interactive_sam_mask_decoder.transformer.layers.{i}."},
    {"tm.i.hyper.", "tracker.model.interactive_sam_mask_decoder.output_hypernetworks_mlps."},
    {"tm.i.", "tracker.model.interactive_sam_mask_decoder."},
    {"tm.d.l.{i}.", "tracker.model.sam_mask_decoder.transformer.layers.{i}."},
    {"tm.d.hyper.", "tracker.model.sam_mask_decoder.output_hypernetworks_mlps."},
    {"tm.d.", "tracker.model.sam_mask_decoder."},
    {"tm.ma.", "tracker.model.transformer.encoder."},
    {"tm.me.", "tracker.model.maskmem_backbone."},
    {"tm.", "tracker.model."},
    {"tr.p.pe_layer.gauss",
     "tracker.sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"},
    {"tr.p.", "tracker.sam_prompt_encoder."},
    {"tr.d.l.{i}.", "tracker.sam_mask_decoder.transformer.layers.{i}."},
    {"tr.d.hyper.", "tracker.sam_mask_decoder.output_hypernetworks_mlps."},
    {"tr.d.", "tracker.sam_mask_decoder."},
    {"tr.ma.", "tracker.transformer.encoder."},
    {"tr.me.", "tracker.maskmem_backbone."},
    {"tr.", "tracker."},
};

constexpr KeyRow kPythonNames[] = {
    {"vision.trunk.", "vision."},
    {"vision.neck.", "vision."},
    {"tracker.memory_bank.num_maskmem", "tracker.num_maskmem"},
    {"tracker.memory_encoder.out_dim", "tracker.mem_dim"},
    {"tracker.memory_attention.num_layers", "tracker.memory_layers"},
    {"tracker.memory_attention.dim_feedforward", "tracker.memory_feedforward"},
    {"tracker.mask_decoder.num_multimask_outputs", "tracker.num_multimask_outputs"},
};

constexpr KeyRow kGgufNames[] = {
    {"image_size", "image_size"},
    {"vision.trunk.patch_size", "patch_size"},
    {"vision.trunk.embed_dim", "vision.embedding_length"},
    {"vision.trunk.depth", "vision.block_count"},
    {"vision.trunk.mlp_dim", "vision.feed_forward_length"},
    {"vision.trunk.num_heads", "vision.attention.head_count"},
    {"vision.trunk.layer_norm_eps", "vision.attention.layer_norm_epsilon"},
    {"vision.trunk.window_size", "vision.window_size"},
    {"vision.trunk.global_att_blocks", "vision.global_blocks"},
    {"vision.trunk.pretrain_img_size", "vision.pretrain_image_size"},
    {"vision.trunk.rope_theta", "vision.rope.theta"},
    {"vision.trunk.norm_pre", "vision.norm_pre"},
    {"vision.trunk.student.network", "vision.student.network"},
    {"vision.trunk.student.embed_dims", "vision.student.embedding_lengths"},
    {"vision.trunk.student.depths", "vision.student.block_counts"},
    {"text.width", "text.embedding_length"},
    {"text.layers", "text.block_count"},
    {"text.heads", "text.attention.head_count"},
    {"text.context_length", "text.context_length"},
    {"text.vocab_size", "text.vocab_size"},
    {"text.mobile_clip", "text.mobile_clip"},
    {"text.repmixer_size", "text.repmixer_size"},
    {"detector.num_queries", "detector.query_count"},
    {"detector.encoder_layers", "detector.encoder_blocks"},
    {"detector.decoder_layers", "detector.decoder_blocks"},
    {"detector.geometry_layers", "detector.geometry_blocks"},
    {"detector.nheads", "detector.head_count"},
    {"detector.dim_feedforward", "detector.feed_forward_length"},
    {"tracker.memory_bank.num_maskmem", "tracker.count"},
    {"multiplex.multiplex_count", "multiplex.count"},
};

// Other names of the parts; that of the trunk may stand without the detector's.
constexpr KeyRow kParts[] = {
    {"sam2_predictor.", "tracker."},  // SAM 3.1 before its release
    {"sam3_model.", "detector."},
    {"detector.backbone.visual.", "detector.backbone.vision_backbone."},
    {"backbone.visual.", "backbone.vision_backbone."},
    {"visual.", "backbone.vision_backbone."},
    {"trunk.", "backbone.vision_backbone.trunk."},
};

// EfficientSAM3's trunk, as training names it and as the published files do.
constexpr KeyRow kStudentParts[] = {
    {"detector.backbone.vision_backbone.trunk.model.student_trunk.",
     "detector.backbone.vision_backbone.trunk.model."},
    {"detector.backbone.vision_backbone.trunk.student_trunk.",
     "detector.backbone.vision_backbone.trunk.model."},
};

// Other spellings of Meta's names. A head of one layer is written without its number.
constexpr KeyRow kSpellings[] = {
    {"detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.lin1.",
     "detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.fc1."},
    {"detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.lin2.",
     "detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.fc2."},
    {"detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.layers.0.",
     "detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.fc1."},
    {"detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.layers.1.",
     "detector.backbone.vision_backbone.trunk.blocks.{i}.mlp.fc2."},
    {"tracker.sam_mask_decoder.transformer.layers.{i}.mlp.fc1.",
     "tracker.sam_mask_decoder.transformer.layers.{i}.mlp.lin1."},
    {"tracker.sam_mask_decoder.transformer.layers.{i}.mlp.fc2.",
     "tracker.sam_mask_decoder.transformer.layers.{i}.mlp.lin2."},
    {"tracker.sam_mask_decoder.transformer.layers.{i}.mlp.layers.0.",
     "tracker.sam_mask_decoder.transformer.layers.{i}.mlp.lin1."},
    {"tracker.sam_mask_decoder.transformer.layers.{i}.mlp.layers.1.",
     "tracker.sam_mask_decoder.transformer.layers.{i}.mlp.lin2."},
    {"tracker.sam_mask_decoder.pred_obj_score_head.weight",
     "tracker.sam_mask_decoder.pred_obj_score_head.layers.0.weight"},
    {"tracker.sam_mask_decoder.pred_obj_score_head.bias",
     "tracker.sam_mask_decoder.pred_obj_score_head.layers.0.bias"},
    {"tracker.obj_ptr_proj.weight", "tracker.obj_ptr_proj.layers.0.weight"},
    {"tracker.obj_ptr_proj.bias", "tracker.obj_ptr_proj.layers.0.bias"},
    {"tracker.maskmem_backbone.fuser.layers.{i}.weight",
     "tracker.maskmem_backbone.fuser.layers.{i}.gamma"},
};

// The image model's own names: upstream strips the detector's prefix when it loads a checkpoint,
// and keeps the tracker in the predictor that takes clicks.
void restore_detector_prefix(StateDict& state_dict) {
  constexpr std::string_view kDetector = "detector.", kTracker = "tracker.";
  respell(state_dict, kParts);
  constexpr KeyRow kClicks{"inst_interactive_predictor.model.", kTracker};
  const auto& tensors = state_dict.tensors();
  if (std::any_of(tensors.begin(), tensors.end(),
                  [&](const TensorEntry& entry) { return entry.name.starts_with(kDetector); })) {
    constexpr KeyRow kBackbone{"backbone.", "detector.backbone."};
    respell(state_dict, {&kBackbone, 1});
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

void to_meta(StateDict& state_dict, Dialect dialect) {
  if (dialect == Dialect::kMeta) {
    restore_detector_prefix(state_dict);
  } else if (dialect == Dialect::kSam3Cpp) {
    sam3_from_sam3cpp(state_dict);
  } else {
    sam3_from_hugging_face(state_dict);
  }
  respell(state_dict, kStudentParts);
  respell(state_dict, kSpellings);
}

// Meta's code drops what blocks behind the last global one make, in which transformers ends.
void complete(StateDict& state_dict) {
  if (state_dict.metadata.contains("config") &&
      sam3_config_of(state_dict, std::nullopt).vision.trunk.output_last_block) {
    fail<UnsupportedError>(state_dict.source,
                           "a trunk that ends with a global block, for Meta's names",
                           "one with blocks behind it, which Meta's code drops");
  }
  sam3_add_class_position(state_dict);
}

ModelInfo info_of(const NetworkConfig& any) {
  const auto& config = std::get<sam3::Sam3Config>(any);
  return {.family = "sam3",
          .variant = config.variant,
          .version = std::string(config.version()),
          .img_size = config.vision.trunk.img_size,
          .mask_side = 4 * config.vision.trunk.grid(),
          .num_multimask_outputs =
              config.tracker ? config.tracker->mask_decoder.num_multimask_outputs : 0,
          .mask_threshold = config.mask_threshold,
          .supports_video = config.tracker && (config.tracker->memory || config.multiplex),
          .supports_text = config.has_detector};
}

}  // namespace

const Family& sam3_family() {
  static constexpr Family kFamily{
      .name = "sam3",
      .title = "SAM 3",
      .signs = kSigns,
      .decoders = kDecoders,
      .hugging_face = {},
      .short_names = kSam3Short,
      .part_names = kBareTrackerRows,
      .python_names = kPythonNames,
      .gguf_names = kGgufNames,
      .to_meta = to_meta,
      .config_of =
          [](const StateDict& state_dict, const std::optional<std::string>& variant) {
            return NetworkConfig(sam3_config_of(state_dict, variant));
          },
      .folder_config_of =
          [](const StateDict& state_dict, const NetworkConfig& config, FolderParts parts) {
            sam3::Sam3Config wanted = std::get<sam3::Sam3Config>(config);
            if (parts == FolderParts::kDetector) wanted.tracker.reset();
            if (parts == FolderParts::kClicks) {
              wanted.has_detector = false;
              if (wanted.tracker) wanted.tracker->memory = false;
            }
            return sam3_folder_config(state_dict, wanted);
          },
      .to_hugging_face =
          [](StateDict& state_dict, const NetworkConfig& config) {
            sam3_to_hugging_face(state_dict, std::get<sam3::Sam3Config>(config));
          },
      .complete = complete,
      .info_of = info_of,
      .releases = [] { return rows_of(sam3::releases()); },
      .released_config =
          [] {
            sam3::Sam3Config config;
            config.vision.neck.add_sam2_neck = true;
            config.tracker = sam3::tracker_heads(config.vision);
            return NetworkConfig(config);
          },
      .release_of =
          [](const NetworkConfig& config) {
            return std::string(info_of(config).supports_video ? "video" : "image");
          },
      .resize = "square-uint8-antialias",
      .defaults = {.clamps_low_res_masks = true, .max_hole_area = 256.0, .memory_selection = true},
      .session = {.clicks_see_memory = false,
                  .max_points = 16,
                  .objects = SessionRules::Objects::kBatches,
                  .fill_video_masks = true,
                  .resizes = {.folder = Resize::kBilinear, .clip = Resize::kCubic}},
  };
  return kFamily;
}

}  // namespace sam_rlx
