#include "checkpoint/key_map.h"

#include <algorithm>
#include <array>
#include <vector>

#include "checkpoint/family.h"
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

// transformers ties these two; a file holds one of them or both.
constexpr std::string_view kEncoding = "prompt_encoder.shared_embedding.positional_embedding";
constexpr std::string_view kEncodingCopy = "shared_image_embedding.positional_embedding";

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

void sam_names_from_hugging_face(StateDict& state_dict) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    if (entry.name == kEncodingCopy) {
      names.push_back(state_dict.contains(kEncoding) ? "" : *map_key(kSamRows, kEncoding));
    } else {
      names.push_back(map_key(kSamRows, entry.name).value_or(entry.name));
    }
  }
  state_dict.rename(names);
}

}  // namespace

std::span<const KeyRow> sam_rows() { return kSamRows; }

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

std::string to_meta_names(StateDict& state_dict) {
  const Family family = detect_family(state_dict);
  if (family.name == "sam2" && family.dialect == Dialect::kMeta) return family.name;
  if (family.name != "sam") {
    const char* const dialect = family.dialect == Dialect::kMeta ? "" : " with transformers' names";
    throw UnsupportedError(state_dict.source + ": family " + family.name + dialect +
                           " recognised; expected sam, or sam2 with Meta's names");
  }
  if (family.dialect == Dialect::kHuggingFace) sam_names_from_hugging_face(state_dict);
  return family.name;
}

}  // namespace sam_rlx
