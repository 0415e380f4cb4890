#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "checkpoint/json.h"
#include "checkpoint/state_dict.h"
#include "layers/release.h"
#include "loading/key_map.h"
#include "loading/session_rules.h"
#include "models/sam/config.h"
#include "models/sam2/config.h"
#include "models/sam3/config.h"

// What differs between families, one row each. Nothing outside of loading/ asks for a family by its
// name: others ask for what a model supports, and for its defaults.

namespace sam_rlx {

using NetworkConfig = std::variant<sam::SamConfig, sam2::Sam2Config, sam3::Sam3Config>;

// Whose names the tensors have.
enum class Dialect { kMeta, kHuggingFace, kSam3Cpp };

// A tensor whose name begins so tells the family.
struct Sign {
  std::string_view begin;
  Dialect dialect;
};

// What a model of any family tells.
struct ModelInfo {
  std::string family;
  std::string variant;  // "vit_b", "hiera_t", ..., the metadata's, or "custom"
  std::string version;  // "1.0", "2.0", "2.1", "3.0", "3.1"
  std::int64_t img_size = 0;
  std::int64_t mask_side = 0;              // of mask prompts and low-resolution masks
  std::int64_t num_multimask_outputs = 0;  // masks of a prompt set where several are asked for
  float mask_threshold = 0.0F;
  bool supports_video = false;  // follows objects that clicks, boxes and masks show
  bool supports_text = false;   // finds what a text names
  bool has_hq_token = false;    // SAM-HQ, HQ-SAM 2: masks of its own token, alone or on top
};

// Where upstream's predictors differ by family.
struct PredictorDefaults {
  bool clamps_low_res_masks = false;  // logits that are given back are at most 32 from 0
  double pred_iou_thresh = 0.8;
  bool refines_masks = false;  // everything mode has use_m2m
  // Holes of the low-resolution mask of an image that are filled in what is made of it. Upstream:
  // SAM3InteractiveImagePredictor.
  double max_hole_area = 0.0;
  std::int64_t fill_hole_area = 0;  // of video
  bool memory_selection = false;
};

// What of a network a class of transformers has: all of it, what clicks need, or what SAM 3 finds
// texts and examples with.
enum class FolderParts { kAll, kClicks, kDetector };

struct Family {
  std::string_view name;  // "sam2"; also the architecture in GGUF files
  std::string_view title;
  // How its tensors are recognized, and their names. From other names to Meta's.
  std::span<const Sign> signs;
  // How Meta's names of what makes masks begin: without any of these a file is an image encoder.
  std::span<const std::string_view> decoders;
  std::span<const KeyRow> hugging_face;
  std::span<const KeyRow> short_names;
  // From names in transformers' classes that have a part of the model to those in the whole.
  std::span<const KeyRow> part_names = {};
  // From the path of a field of the config ("image_encoder.depth") to its key in model.config,
  // where fields without a row stay at their path, and to the key of a GGUF file, in the order of
  // the file, which has no others.
  std::span<const KeyRow> python_names;
  std::span<const KeyRow> gguf_names;

  void (*to_meta)(StateDict& state_dict, Dialect dialect);
  // The sizes that a checkpoint with Meta's names holds: from the config in its metadata, else from
  // the tensors. Raises CheckpointError when `variant` contradicts the file or sizes contradict
  // each other, and UnsupportedError for a variant that there is not.
  NetworkConfig (*config_of)(const StateDict& state_dict,
                             const std::optional<std::string>& variant);
  // For folders of transformers, from Meta's names: the settings of the class with these parts, and
  // the names and layouts of its tensors. UnsupportedError for what transformers has no class or no
  // setting for.
  Json (*folder_config_of)(const StateDict& state_dict, const NetworkConfig& config,
                           FolderParts parts);
  void (*to_hugging_face)(StateDict& state_dict, const NetworkConfig& config);
  // Adds, to Meta's names, what Meta's package does not load without although it computes nothing
  // with it. None: there is no such thing.
  void (*complete)(StateDict& state_dict) = nullptr;
  ModelInfo (*info_of)(const NetworkConfig& config);

  // What was released, smallest first, and the config of the first, with all parts.
  std::vector<Release> (*releases)();
  NetworkConfig (*released_config)();

  // For GGUF files: the variant of a release, how images are resized, and what pixels are divided
  // by there but not here.
  std::string (*release_of)(const NetworkConfig& config);
  std::string_view resize;
  double pixel_scale = 1.0;

  PredictorDefaults defaults = {};
  SessionRules session = {};
};

// Rows of a list without their sizes.
template <class Row>
std::vector<Release> rows_of(std::span<const Row> rows) {
  return {rows.begin(), rows.end()};
}
// The row of a variant. Other sizes are taken for those of the largest: they have its source and
// its license.
Release release_or_last(const Family& family, std::string_view variant);

const Family& sam_family();
const Family& sam2_family();
const Family& sam3_family();

// All of them; the first whose sign fits is taken.
std::span<const Family* const> families();
std::vector<std::string_view> family_names();
std::string family_titles();  // "SAM, SAM 2 or SAM 3"
// UnsupportedError when there is none of this name.
const Family& family_named(std::string_view name);

// Recognises a family by the names of the tensors and gives them Meta's. Relatives that need other
// code (relatives.h) raise UnsupportedError, anything else CheckpointError.
const Family& to_meta_names(StateDict& state_dict);

// Raises UnsupportedError for an image encoder alone, by Meta's names.
void check_whole(const StateDict& state_dict, const Family& family);

// ggml's readers refuse names of 64 bytes and more, and Meta's are longer. These are the names of
// the scheme "short-1": short beginnings, one for each part of a model. Names without a row stay as
// they are. The two are inverse to each other.
std::string to_short_name(std::string_view family, std::string_view meta_name);
std::string from_short_name(std::string_view family, std::string_view short_name);

}  // namespace sam_rlx
