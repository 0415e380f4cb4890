#include "checkpoint/ggml.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "checkpoint/byte_reader.h"
#include "checkpoint/ggml_tensor.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kSam2Magic = "2mas"sv, kSam3Magic = "3mas"sv;  // little-endian numbers
constexpr std::string_view kTokenizerMagic = "\0kot"sv;
constexpr std::int32_t kSam2Version = 1, kSam3Version = 3;
constexpr std::int32_t kMaxAxes = 4, kLongestName = 1024, kRepVit = 2;
constexpr std::size_t kAlignment = 32;

// A setting and how many numbers it has; kAsBefore: as many as the setting before it says, at most
// 4.
struct Setting {
  const char* name;
  int count = 1;
};
constexpr int kAsBefore = -1;

constexpr Setting kSam2Settings[] = {
    {"img_size"},
    {"backbone_type"},
    {"hiera_embed_dim"},
    {"hiera_num_heads"},
    {"hiera_num_stages"},
    {"hiera_stages", 4},
    {"hiera_global_n"},
    {"hiera_global_idx", 8},
    {"hiera_q_pool"},
    {"hiera_window_spec", 4},
    {"hiera_pos_embed_bkg_h"},
    {"hiera_pos_embed_bkg_w"},
    {"scalp"},
    {"neck_dim"},
    {"fpn_top_down_n"},
    {"fpn_top_down_levels", 4},
    {"sam_embed_dim"},
    {"sam_dec_depth"},
    {"sam_n_multimask"},
    {"sam_iou_head_depth"},
    {"mem_out_dim"},
    {"mem_attn_layers"},
    {"num_maskmem"},
    {"max_obj_ptrs"},
    {"sigmoid_scale_x100"},
    {"sigmoid_bias_x100"},
    {"use_high_res_features"},
    {"use_obj_ptrs_in_encoder"},
    {"pred_obj_scores"},
    {"use_multimask_token_for_obj_ptr"},
    {"directly_add_no_mem_embed"},
    {"non_overlap_masks_for_mem_enc"},
    {"binarize_mask_from_pts"},
    {"multimask_output_for_tracking"},
    {"multimask_min_pt_num"},
    {"multimask_max_pt_num"},
    {"fixed_no_obj_ptr"},
    {"iou_prediction_use_sigmoid"},
    {"use_mask_input_as_output"},
    {"multimask_output_in_sam"},
    {"is_sam2_1"},
};

// Behind those of SAM 2 if backbone_type is kRepVit.
constexpr Setting kEdgeTamSettings[] = {
    {"repvit_num_stages"},  {"repvit_stages", 4},       {"repvit_channels", 4},
    {"repvit_se_ratio"},    {"has_spatial_perceiver"},  {"perceiver_depth"},
    {"perceiver_dim"},      {"perceiver_n_latents_1d"}, {"perceiver_n_latents_2d"},
    {"perceiver_ff_mult"},  {"mem_attn_ca_type"},       {"mem_attn_ca_q_size"},
    {"mem_attn_ca_k_size"},
};

constexpr Setting kSam3Settings[] = {
    {"img_size"},          {"patch_size"},       {"vit_embed_dim"},
    {"vit_depth"},         {"vit_num_heads"},    {"vit_mlp_ratio_x1000"},
    {"vit_window_size"},   {"n_global_attn"},    {"global_attn_idx", kAsBefore},
    {"text_width"},        {"text_heads"},       {"text_layers"},
    {"text_ctx_len"},      {"text_vocab_size"},  {"text_out_dim"},
    {"neck_dim"},          {"fenc_layers"},      {"fenc_heads"},
    {"fenc_ffn_dim"},      {"ddec_layers"},      {"ddec_heads"},
    {"ddec_ffn_dim"},      {"ddec_num_queries"}, {"geom_layers"},
    {"n_presence_tokens"}, {"n_geom_queries"},   {"sam_embed_dim"},
    {"sam_dec_depth"},     {"sam_n_multimask"},  {"sam_iou_head_depth"},
    {"mem_out_dim"},       {"mem_attn_layers"},  {"num_maskmem"},
    {"max_obj_ptrs"},      {"n_amb_experts"},    {"visual_only"},
};

std::int32_t setting_of(const StateDict& state_dict, const char* name) {
  return std::stoi(state_dict.metadata.at(std::string("sam3.hparams.") + name));
}

std::string take_list(ByteReader& reader, int count) {
  std::string json = "[";
  for (int i = 0; i < count; ++i) {
    json += (i == 0 ? "" : ", ") + std::to_string(reader.take<std::int32_t>());
  }
  return json + "]";
}

void take_settings(ByteReader& reader, std::span<const Setting> settings, StateDict& out) {
  std::int32_t before = 0;
  for (const Setting& setting : settings) {
    std::string& value = out.metadata[std::string("sam3.hparams.") + setting.name];
    if (setting.count == 1) {
      before = reader.take<std::int32_t>();
      value = std::to_string(before);
    } else {
      const bool fixed = setting.count != kAsBefore;
      value = take_list(reader, fixed ? setting.count : std::clamp(before, 0, 4));
    }
  }
}

// What stands before the tensors; returns how many there are.
std::int32_t take_header(ByteReader& reader, StateDict& out) {
  const bool sam2 = as_text(reader.take_bytes(4)) == kSam2Magic;
  const std::int32_t expected = sam2 ? kSam2Version : kSam3Version;
  const auto version = reader.take<std::int32_t>();
  if (version != expected) {
    fail<UnsupportedError>(reader.where(),
                           std::string("a .ggml file of ") + (sam2 ? "SAM 2" : "SAM 3") +
                               " of version " + std::to_string(expected),
                           "version " + std::to_string(version));
  }
  out.metadata["family"] = sam2 ? "sam2" : "sam3";
  out.metadata["sam3.version"] = std::to_string(version);
  out.metadata["sam3.ftype"] = std::to_string(reader.take<std::int32_t>());
  const auto count = reader.take<std::int32_t>();
  take_settings(reader, sam2 ? std::span<const Setting>(kSam2Settings) : kSam3Settings, out);
  if (sam2 && setting_of(out, "backbone_type") == kRepVit) {
    take_settings(reader, kEdgeTamSettings, out);
  }
  return count;
}

// A count or a length that a file states.
std::int32_t take_count(ByteReader& reader, std::int32_t most, const std::string& what) {
  const auto count = reader.take<std::int32_t>();
  if (count < 0 || count > most) {
    fail<CheckpointError>(reader.where() + ", byte " + std::to_string(reader.position()),
                          what + " of 0 to " + std::to_string(most), std::to_string(count));
  }
  return count;
}

TensorEntry take_tensor(ByteReader& reader) {
  const std::int32_t rank = take_count(reader, kMaxAxes, "a number of axes");
  const std::int32_t length = take_count(reader, kLongestName, "the length of a name");
  const auto type = reader.take<std::uint32_t>();
  TensorEntry entry;
  for (std::int32_t axis = 0; axis < rank; ++axis) {  // innermost first
    entry.dims.insert(entry.dims.begin(), reader.take<std::int32_t>());
  }
  entry.name = as_text(reader.take_bytes(static_cast<std::uint64_t>(length)));
  const std::string location = reader.where() + ": " + printable(entry.name);
  if (!is_utf8(entry.name)) {
    fail<CheckpointError>(reader.where(), "names in UTF-8", quoted(std::string_view(entry.name)));
  }
  for (const std::int64_t size : entry.dims) {
    if (size < 0) fail<CheckpointError>(location, "sizes of axes", dims_text(entry.dims));
  }
  entry.dtype = ggml_dtype(type, location);
  const auto bytes = static_cast<std::uint64_t>(lay_out_ggml(entry, location));
  const std::size_t over = reader.position() % kAlignment;
  if (over != 0) reader.take_bytes(kAlignment - over);
  entry.data = reader.take_bytes(bytes).data();
  return entry;
}

// A list of so many records, each of texts with their lengths and `numbers` numbers behind each.
std::int32_t skip_texts(ByteReader& reader, int texts, int numbers) {
  constexpr std::int32_t kMaxTexts = 1 << 20, kMaxTextLength = 1 << 16;
  const std::int32_t count = take_count(reader, kMaxTexts, "a number of texts");
  for (std::int32_t i = 0; i < count; ++i) {
    for (int text = 0; text < texts; ++text) {
      const std::int32_t length = take_count(reader, kMaxTextLength, "the length of a text");
      reader.take_bytes(static_cast<std::uint64_t>(length));
    }
    reader.take_bytes(4U * static_cast<std::uint64_t>(numbers));
  }
  return count;
}

// Words with their ids, then merges of two parts. The text encoder has a row for each word.
void skip_tokenizer(ByteReader& reader, const StateDict& state_dict) {
  const std::string where = reader.where() + ": tokenizer";
  const std::string_view magic = as_text(reader.take_bytes(kTokenizerMagic.size()));
  if (magic != kTokenizerMagic) {
    fail<CheckpointError>(where, quoted(kTokenizerMagic) + " at its beginning", quoted(magic));
  }
  const std::int32_t words = skip_texts(reader, 1, 1);
  const std::int32_t expected = setting_of(state_dict, "text_vocab_size");
  if (words != expected) {
    fail<CheckpointError>(where, std::to_string(expected) + " words", std::to_string(words));
  }
  skip_texts(reader, 2, 0);
}

}  // namespace

bool is_sam3cpp_file(std::string_view content) {
  return content.starts_with(kSam2Magic) || content.starts_with(kSam3Magic);
}

StateDict read_ggml(std::span<const std::byte> bytes, const std::string& where) {
  constexpr std::size_t kSmallestTensor = 3 * sizeof(std::int32_t);
  ByteReader reader(bytes, where);
  StateDict result;
  result.source = where;
  const std::int32_t count = take_header(reader, result);
  if (count < 0 || static_cast<std::size_t>(count) > reader.remaining() / kSmallestTensor) {
    fail<CheckpointError>(where, "tensors that fit the file", std::to_string(count) + " tensors");
  }
  for (std::int32_t i = 0; i < count; ++i) result.add(take_tensor(reader));
  // SAM 2 has no such setting and no text encoder.
  const bool text = result.metadata.contains("sam3.hparams.visual_only") &&
                    setting_of(result, "visual_only") == 0;
  if (text) skip_tokenizer(reader, result);
  if (reader.remaining() != 0) {
    fail<CheckpointError>(where, "the end of the file at byte " + std::to_string(reader.position()),
                          std::to_string(reader.remaining()) + " more bytes");
  }
  return result;
}

}  // namespace sam_rlx
