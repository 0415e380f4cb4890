#include "loading/quantizers.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>
#include <string_view>

#include "checkpoint/byte_reader.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/text.h"
#include "core/error.h"
#include "loading/family.h"

namespace sam_rlx {
namespace {

constexpr std::string_view kScales = "numbers with scales of their own";
constexpr std::string_view kUnscaled =
    "write the weights as plain float16 or float32 with the program that packed them";
constexpr const char* kPlainWeights = "weights as plain numbers";

// Part of a tensor's name, at its end if so, and who writes it.
struct QuantizerRow {
  std::string_view part;
  bool at_end;
  std::string_view who;
};

// The first that fits is taken. Names as the programs write them.
constexpr QuantizerRow kQuantizers[] = {
    {"scaled_fp8", false, "fp8 scaled"},
    {".scale_weight", true, "fp8 scaled"},
    {".scale_input", true, "fp8 scaled"},
    {".comfy_quant", true, "ComfyUI"},
    {".weight._data", true, "quanto"},
    {".weight._scale", true, "quanto"},
    {".weight_qtype", true, "quanto"},
    {"_weight_qdata", true, "torchao"},
    {"_weight_scale", true, "torchao"},
    {"_weight_zero_point", true, "torchao"},
    {".weight_packed", true, "compressed-tensors"},
    {".weight_global_scale", true, "compressed-tensors"},
    {".weight_shape", true, "compressed-tensors"},
    {".bitmask", true, "compressed-tensors"},
    {".weight_scale_inv", true, "fp8 in blocks"},
    {".weight_scale_2", true, "modelopt"},
    {"_quantizer.", false, "modelopt or Quark"},
    {".pre_quant_scale", true, "modelopt"},
    {".SCB", true, "bitsandbytes"},
    {".quant_state.", false, "bitsandbytes"},
    {".absmax", true, "bitsandbytes"},
    {".quant_map", true, "bitsandbytes"},
    {".qweight", true, "GPTQ, AWQ"},
    {".qzeros", true, "GPTQ, AWQ"},
    {".g_idx", true, "GPTQ"},
    {".W_q", true, "HQQ"},
    {".codebooks", true, "AQLM"},
    {".Qidxs", true, "QuIP#"},
    {".centroids", false, "VPTQ"},
    {".wscales", true, "SVDQuant"},
    {".smooth_factor", true, "SVDQuant"},
    {"_packed_params", false, "PyTorch's eager quantization"},
    {".weight_fake_quant.", false, "PyTorch's quantization-aware training"},
    {".activation_post_process.", false, "PyTorch's quantization-aware training"},
    {".weight_quant.", false, "Brevitas"},
    {".encoded_exponent", true, "DFloat11"},
    {".sign_mantissa", true, "DFloat11"},
    {".weight_scale", false, "fp8 or int8"},
    {".weight_zero_point", true, "int8"},
    {".input_scale", true, "fp8 or int8"},
    {".output_scale", true, "fp8 or int8"},
    {".weight_blocks", true, "MXFP4"},
    {".scales", true, "MLX"},
    {".biases", true, "MLX"},
};

// Words in the reason why a value that is no plain tensor was left out.
constexpr std::string_view kClasses[] = {"a quantized tensor", "torchao", "quanto", "bitsandbytes",
                                         "modelopt"};

// Parts of a key of metadata that tell of bytes which are not those of the dtype.
struct MetadataRow {
  std::string_view part;
  std::string_view what;
  std::string_view help;
};
constexpr std::string_view kDecode = "write them as they were with the program that changed them";
constexpr MetadataRow kChangedBytes[] = {
    {"crypt", "encrypted tensors", "decrypt them first, with the program that encrypted them"},
    {"cipher", "encrypted tensors", "decrypt them first, with the program that encrypted them"},
    {"compress", "compressed tensors", kDecode},
    {"zipnn", "compressed tensors", kDecode},
    {"zstd", "compressed tensors", kDecode},
    {"endian", "tensors of another byte order", kDecode},
    {"byte_order", "tensors of another byte order", kDecode},
    {"byteorder", "tensors of another byte order", kDecode},
    {"quant", kScales, kUnscaled},
};
// Values of such keys that say: nothing was changed. Bytes are little-endian in this format.
constexpr std::string_view kUnchanged[] = {
    "",  "none",   "null", "false", "no",    "{}",           "[]",
    "0", "little", "le",   "<",     "plain", "little-endian"};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

[[noreturn]] void refuse_quantized(const std::string& where, const std::string& found,
                                   std::string_view help,
                                   const std::string& expected = kPlainWeights) {
  fail<UnsupportedError>(where, expected, found + ": " + std::string(help));
}

// What a config.json tells of its quantizer: transformers' and MLX's keys.
std::string quantizer_of(const Json& config) {
  constexpr const char* kUnused = "";
  for (const char* const key : {"quantization_config", "compression_config", "quantization"}) {
    const Json* const found = config.is_object() ? config.find(key) : nullptr;
    if (found == nullptr || !found->is_object() || found->object(kUnused).empty()) continue;
    const Json* const method = found->find("quant_method");
    if (method != nullptr && method->is_string()) return printable(method->string(kUnused));
    return found->find("group_size") != nullptr ? "MLX" : std::string("by ") + key;
  }
  return {};
}

}  // namespace

void refuse_quantized(const StateDict& state_dict) {
  for (const QuantizerRow& row : kQuantizers) {
    for (const TensorEntry& entry : state_dict.tensors()) {
      const std::string& name = entry.name;
      const bool fits = row.at_end ? name.ends_with(row.part) || name == row.part.substr(1)
                                   : name.find(row.part) != std::string::npos;
      if (!fits) continue;
      refuse_quantized(
          state_dict.source,
          std::string(kScales) + " (" + std::string(row.who) + "), tensor " + printable(name),
          kUnscaled, family_titles());
    }
  }
  for (const std::string& line : state_dict.skipped()) {
    const bool fits =
        std::any_of(std::begin(kClasses), std::end(kClasses),
                    [&](std::string_view part) { return line.find(part) != std::string::npos; });
    if (!fits) continue;
    refuse_quantized(state_dict.source, std::string(kScales) + " (" + line + ")", kUnscaled,
                     family_titles());
  }
}

void refuse_changed_bytes(const StateDict& state_dict) {
  for (const auto& [key, value] : state_dict.metadata) {
    const std::string name = lower(key), told = lower(value);
    // What a GGUF file said about itself, before it became this one.
    if (name.starts_with("general.")) continue;
    if (std::find(std::begin(kUnchanged), std::end(kUnchanged), told) != std::end(kUnchanged)) {
      continue;
    }
    for (const MetadataRow& row : kChangedBytes) {
      if (name.find(row.part) == std::string::npos) continue;
      refuse_quantized(state_dict.source + ": __metadata__",
                       std::string(row.what) + " (key " + printable(key) + ")", row.help);
    }
  }
}

void refuse_quantized_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::is_regular_file(path)) return;
  const MappedFile file(path);
  const std::string_view text = as_text(file.bytes());
  if (text.find("quantization") == std::string::npos &&
      text.find("compression_config") == std::string::npos) {
    return;  // whatever it is
  }
  const std::string where = printable(utf8_of(path));
  const std::string quantizer = quantizer_of(Json::parse(text, where));
  if (quantizer.empty()) return;
  refuse_quantized(
      where, std::string(kScales) + " (" + quantizer + ")",
      "write plain weights, in transformers: model.dequantize(), then save_pretrained");
}

}  // namespace sam_rlx
