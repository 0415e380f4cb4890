#include "loading/sam3_config.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/config_reader.h"
#include "loading/heads_config.h"
#include "loading/sizes_text.h"

namespace sam_rlx {
namespace {

constexpr const char* kReleased = "sam3";
constexpr std::string_view kTracker = "tracker.";
constexpr std::int64_t kMaxGrid = 512;
// What the tracker does not need.
constexpr std::string_view kDetectorParts[] = {
    "detector.backbone.language_backbone.", "detector.backbone.vision_backbone.convs.",
    "detector.geometry_encoder.",           "detector.transformer.",
    "detector.segmentation_head.",          "detector.dot_prod_scoring.",
};

// ---------------------------------------------------------------- sizes that fit each other

bool trunk_fits(const sam3::ViTConfig& c) {
  const std::vector<std::int64_t>& blocks = c.global_att_blocks;
  const bool ascending =
      std::adjacent_find(blocks.begin(), blocks.end(), std::greater_equal<>()) == blocks.end();
  return c.img_size % c.patch_size == 0 && c.pretrain_img_size % c.patch_size == 0 &&
         c.grid() <= kMaxGrid && c.table_grid() >= 1 && c.table_grid() <= kMaxGrid &&
         c.embed_dim % c.num_heads == 0 && c.head_dim() % 4 == 0 && c.mlp_dim() >= 1 &&
         !blocks.empty() && ascending && blocks.back() < c.depth;
}

// The detector and the tracker take maps of 4, 2 and 1 times the trunk's sides.
bool neck_fits(const sam3::VisionConfig& c) {
  const std::vector<double>& factors = c.neck.scale_factors;
  const auto known = [](double f) { return f == 4.0 || f == 2.0 || f == 1.0 || f == 0.5; };
  return factors.size() >= 3 && factors.size() <= 8 && factors[0] == 4.0 && factors[1] == 2.0 &&
         factors[2] == 1.0 && std::all_of(factors.begin(), factors.end(), known) &&
         c.neck.num_levels() == 3 && c.trunk.embed_dim % 4 == 0;
}

bool others_fit(const sam3::TextEncoderConfig& text, const sam3::DetectorConfig& detector) {
  return text.width % text.heads == 0 && detector.d_model % 8 == 0 &&
         detector.d_model % detector.num_heads == 0;
}

// ---------------------------------------------------------------- metadata

// Files of this project's training have all fields on one level, with upstream's names.
constexpr KeyRow kFileNames[] = {
    {"text.width", "text_width"}, {"text.heads", "text_heads"}, {"text.layers", "text_layers"},
    {"pixel_mean", "image_mean"}, {"pixel_std", "image_std"},
};

sam3::Sam3Config config_from_file(const ConfigReader& reader, const std::string& variant) {
  sam3::Sam3Config config;
  config.variant = variant;
  visit_fields(config, reader);
  if (!trunk_fits(config.vision.trunk) || !neck_fits(config.vision) ||
      !others_fit(config.text, config.detector)) {
    fail<CheckpointError>(ConfigReader::kWhere, "sizes that divide each other as in SAM 3",
                          sizes_text_of(config));
  }
  return config;
}

// ---------------------------------------------------------------- tensors

std::string sizes_text(const StateDict& state_dict) {
  const std::string backbone = "detector.backbone.", trunk = backbone + "vision_backbone.trunk.";
  const std::string text = backbone + "language_backbone.encoder.";
  const std::string layers = "detector.transformer.";
  const auto size = [&](const std::string& name, std::size_t rank, std::size_t axis) {
    return std::to_string(size_of(required_tensor(state_dict, name, rank), axis));
  };
  const auto count = [&](const std::string& begin) {
    return std::to_string(count_of(state_dict, begin, ".norm1.weight"));
  };
  return "trunk of width " + size(trunk + "patch_embed.proj.weight", 4, 0) + " with " +
         count(trunk + "blocks.") + " blocks, text of width " +
         size(text + "token_embedding.weight", 2, 1) + ", detector of width " +
         size(layers + "decoder.query_embed.weight", 2, 1) + " with " +
         count(layers + "encoder.layers.") + " and " + count(layers + "decoder.layers.") +
         " layers";
}

std::string sizes_text(const sam3::Sam3Config& c) {
  return "trunk of width " + std::to_string(c.vision.trunk.embed_dim) + " with " +
         std::to_string(c.vision.trunk.depth) + " blocks, text of width " +
         std::to_string(c.text.width) + ", detector of width " +
         std::to_string(c.detector.d_model) + " with " + std::to_string(c.detector.encoder_layers) +
         " and " + std::to_string(c.detector.decoder_layers) + " layers";
}

sam3::Sam3Config config_from_tensors(const StateDict& state_dict) {
  sam3::Sam3Config config;
  config.variant = kReleased;
  const std::string expected = sizes_text(config), found = sizes_text(state_dict);
  if (found != expected) {
    fail<CheckpointError>(state_dict.source,
                          "the sizes of the released SAM 3, or a config in the metadata", found);
  }
  return config;
}

bool any_begins_with(const StateDict& state_dict, std::string_view begin) {
  const auto& tensors = state_dict.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const TensorEntry& entry) { return entry.name.starts_with(begin); });
}

// What transformers and files for clicks and videos alone leave out.
void read_optional_parts(const StateDict& state_dict, sam3::Sam3Config& config) {
  config.has_detector =
      !any_begins_with(state_dict, kTracker) ||
      std::any_of(std::begin(kDetectorParts), std::end(kDetectorParts),
                  [&](std::string_view part) { return any_begins_with(state_dict, part); });
  sam3::ViTConfig& trunk = config.vision.trunk;
  const TensorEntry* const table =
      state_dict.find("detector.backbone.vision_backbone.trunk.pos_embed");
  trunk.pretrain_use_cls_token = table == nullptr || table->dims.size() != 3 ||
                                 table->dims[1] != trunk.table_grid() * trunk.table_grid();
  config.detector.encode_points = any_begins_with(state_dict, "detector.geometry_encoder.points_");
}

void read_tracker(const StateDict& state_dict, bool has_config, sam3::Sam3Config& config) {
  if (!any_begins_with(state_dict, kTracker)) return;
  config.vision.neck.add_sam2_neck = true;
  sam2::HeadsConfig heads = sam3::tracker_heads(config.vision);
  const HeadsNames names{.prefix = std::string(kTracker),
                         .memory_attention = "transformer.encoder.",
                         .memory_encoder = "maskmem_backbone.",
                         .first_linear = "mlp.lin1."};
  read_heads(state_dict, names, heads);
  if (!has_config) check_released_heads(heads, names, state_dict.source);
  visit_fields(heads, CheckFields{state_dict.source}, "tracker.");
  if (!heads_fit(heads, config.vision.neck.d_model)) {
    fail<CheckpointError>(state_dict.source, "a tracker of sizes as in SAM 3",
                          sizes_text_of(heads));
  }
  config.tracker = heads;
}

}  // namespace

sam3::Sam3Config sam3_config_of(const StateDict& state_dict,
                                const std::optional<std::string>& variant) {
  const std::optional<ConfigReader> reader = config_in(state_dict, kFileNames);
  sam3::Sam3Config found =
      reader ? config_from_file(*reader, variant_in(state_dict)) : config_from_tensors(state_dict);
  read_optional_parts(state_dict, found);
  const bool named = !reader || state_dict.metadata.contains("variant");
  if (!named && sizes_text(found) == sizes_text(sam3::Sam3Config())) found.variant = kReleased;
  read_tracker(state_dict, reader.has_value(), found);
  if (!variant || *variant == found.variant) return found;
  if (*variant != kReleased) fail<UnsupportedError>("variant", kReleased, *variant);
  fail<CheckpointError>("variant " + *variant, sizes_text(sam3::Sam3Config()),
                        sizes_text(found) + " (the file is " + printable(found.variant) + ")");
}

}  // namespace sam_rlx
