#include "loading/open.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "checkpoint/byte_reader.h"
#include "checkpoint/ggml.h"
#include "checkpoint/gguf.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/text.h"
#include "checkpoint/torch_archive.h"
#include "checkpoint/torch_legacy.h"
#include "checkpoint/zip_archive.h"
#include "core/error.h"
#include "loading/choose_checkpoint.h"
#include "loading/containers.h"
#include "loading/family.h"
#include "loading/quantizers.h"
#include "loading/tensor_map.h"

namespace sam_rlx {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr const char* kImagePart = "image_processor";  // of the processor's file

// True when the file begins as safetensors does: a length, then '{'. A JSON text or a pickle may
// have '{' at the same offset, but no zeros before it.
bool looks_like_safetensors(std::string_view text) {
  if (text.size() < 9 || text[8] != '{') return false;
  return (text[0] != '{' && text[0] != '\x80') || text.substr(4, 4) == "\0\0\0\0"sv;
}

StateDict open_file(const fs::path& path, const WrapperChoice& choice);

StateDict open_shards(std::string_view text, const fs::path& index, const std::string& where,
                      const WrapperChoice& choice) {
  constexpr std::size_t kMaxShards = 1000;
  const Json json = Json::parse(text, where);
  const Json& weight_map = json.at("weight_map", where);
  std::vector<std::string> shards;
  for (const auto& [name, shard] : weight_map.object(where + ": weight_map")) {
    shards.push_back(shard.string(where + ": " + printable(name)));
  }
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  if (shards.size() > kMaxShards) {
    fail<CheckpointError>(where, "at most 1000 shards", std::to_string(shards.size()));
  }
  StateDict result;
  result.source = where;
  for (const std::string& shard : shards) {
    const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                       shard.find_first_of("/\\:"sv) == std::string::npos &&
                       shard.find('\0') == std::string::npos && !is_shard_index(shard);
    if (!plain) fail<CheckpointError>(where, "plain file names of shards", printable(shard));
    StateDict part = open_file(index.parent_path() / path_of(shard), choice);
    if (result.origin.container.empty()) result.origin = part.origin;
    result.merge(std::move(part));
  }
  for (const auto& [name, shard] : weight_map.object(where)) {
    if (!result.contains(name)) {
      fail<CheckpointError>(where + ": " + printable(name),
                            "the tensor in " + printable(shard.string(where)), "none");
    }
  }
  return result;
}

StateDict read_content(std::span<const std::byte> bytes, const std::string& where,
                       const WrapperChoice& choice) {
  const std::string_view text = as_text(bytes);
  const ChooseDict choose = [&](const std::vector<NestedDict>& dicts) {
    return choose_dict(dicts, choice, where);
  };
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) {
    const std::vector<std::string> names = zip_names(bytes);
    if (!is_torch_zip(names)) refuse_zip(names, where);
    return read_torch_archive(bytes, where, choose);
  }
  if (is_sam3cpp_file(text)) {
    StateDict result = read_ggml(bytes, where);
    result.origin.container = "ggml";
    return result;
  }
  if (looks_like_safetensors(text)) {
    StateDict result = read_safetensors(bytes, where);
    refuse_changed_bytes(result);
    result.origin.container = "safetensors";
    return result;
  }
  if (text.starts_with("\x80")) return read_torch_legacy(bytes, where, choose);
  refuse_content(text, where);
}

// How the name of one of several GGUF files ends; `part` counts from 0.
std::string part_suffix(std::int64_t part, std::int64_t count) {
  const auto digits = [](std::int64_t number) {
    const std::string text = std::to_string(number);
    return std::string(5 - std::min<std::size_t>(5, text.size()), '0') + text;
  };
  return "-" + digits(part + 1) + "-of-" + digits(count) + ".gguf";
}

// Gives tensors Meta's names where a GGUF file says that its own are the short ones.
void restore_long_names(StateDict& state_dict) {
  const std::string& family = state_dict.metadata.at("family");
  const std::string key = family + ".naming";
  const auto found = state_dict.metadata.find(key);
  if (found == state_dict.metadata.end() || found->second == "meta") return;
  if (found->second != "short-1") {
    fail<UnsupportedError>(state_dict.source + ": " + key, "meta or short-1",
                           printable(found->second));
  }
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    names.push_back(from_short_name(family, entry.name));
  }
  state_dict.rename(names);
}

// A file, and with it the others that it says it is the first of.
StateDict open_gguf(const fs::path& path, const std::shared_ptr<const MappedFile>& first) {
  std::vector<std::shared_ptr<const MappedFile>> files{first};
  const std::string name = utf8_of(path.filename()), where = printable(utf8_of(path));
  const auto open_part = [&](std::int64_t part, std::int64_t count) -> GgufFile {
    const std::string suffix = part_suffix(0, count);
    if (!name.ends_with(suffix)) {
      fail<CheckpointError>(where, "a name that ends in " + suffix, printable(name));
    }
    const std::string stem = name.substr(0, name.size() - suffix.size());
    const fs::path other = path.parent_path() / path_of(stem + part_suffix(part, count));
    files.push_back(std::make_shared<const MappedFile>(other));
    return {files.back()->bytes(), printable(utf8_of(other))};
  };
  StateDict result = read_gguf({first->bytes(), where}, open_part, family_names());
  result.files = std::move(files);
  result.origin.container = "GGUF";
  orient_matrices(result, apply_tensor_map(result, path), where);
  restore_long_names(result);
  return result;
}

StateDict open_whole(const fs::path& path, const WrapperChoice& choice) {
  const auto file = std::make_shared<const MappedFile>(path);
  if (as_text(file->bytes()).starts_with("GGUF")) return open_gguf(path, file);
  StateDict result = read_content(file->bytes(), printable(utf8_of(path)), choice);
  result.files.push_back(file);
  apply_tensor_map(result, path);
  return result;
}

StateDict open_file(const fs::path& path, const WrapperChoice& choice) {
  try {
    return open_whole(path, choice);
  } catch (const CheckpointError&) {
    refuse_part(path);
    throw;
  }
}

// Names of the files of a folder, and of folders inside down to so many levels, with "/".
std::vector<std::string> files_of(const fs::path& folder, int depth) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = utf8_of(item.path().filename());
    if (item.is_regular_file()) {
      names.push_back(name);
    } else if (depth > 0 && item.is_directory() && !name.starts_with(".")) {
      for (const std::string& inside : files_of(item.path(), depth - 1)) {
        names.push_back(name + "/" + inside);
      }
    }
  }
  return names;
}

// Whether a file holds an embedding or a session of this library, which lie beside checkpoints.
bool is_saved_state(const fs::path& path) {
  if (path.extension() != ".safetensors") return false;
  try {
    const MappedFile file(path);
    const StateDict found = read_safetensors(file.bytes(), utf8_of(path));
    const auto format = found.metadata.find("format");
    return format != found.metadata.end() && format->second.starts_with("sam_rlx.");
  } catch (const CheckpointError&) {  // damaged: who loads it is told
    return false;
  }
}

// The model that the adapter of a folder was trained for; empty without one.
std::string base_of_adapter(const fs::path& folder) {
  const fs::path path = folder / kAdapterFile;
  if (!fs::exists(path)) return "";
  const std::string where = printable(utf8_of(path));
  const MappedFile file(path);
  const Json json = Json::parse(as_text(file.bytes()), where);
  const Json* const base = json.find("base_model_name_or_path");
  return base != nullptr && base->is_string() ? base->string(where) : "";
}

// Whether transformers gave the tensors their names.
bool has_hugging_face_names(const StateDict& state_dict) {
  for (const TensorEntry& entry : state_dict.tensors()) {
    for (const Family* const family : families()) {
      for (const Sign& sign : family->signs) {
        if (entry.name.starts_with(sign.begin)) return sign.dialect == Dialect::kHuggingFace;
      }
    }
  }
  return false;
}

// How transformers makes pixels of images: in a file of its own, or, of versions from 4.50 on, in
// that of the processor.
void add_folder_preprocessor(StateDict& state_dict, const fs::path& folder) {
  const auto read = [&](const char* name, const std::string& part) {
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path)) return false;
    const MappedFile file(path);
    const std::string_view text = as_text(file.bytes());
    const std::string where = printable(utf8_of(path));
    const Json json = Json::parse(text, where);
    if (!part.empty() && json.find(part) == nullptr) return false;
    state_dict.metadata["preprocessor"] = text;
    return true;
  };
  if (!read(kPreprocessorFile, "")) read(kProcessorFile, kImagePart);
}

// Settings of transformers' models are in a file beside the weights. Meta's files have no such, and
// a config of their own comes first.
void add_folder_config(StateDict& state_dict, const fs::path& folder) {
  const fs::path path = folder / kConfigFile;
  if (state_dict.metadata.contains("config") || !has_hugging_face_names(state_dict) ||
      !fs::is_regular_file(path)) {
    return;
  }
  refuse_quantized_folder(folder);
  const MappedFile file(path);
  const std::string where = printable(utf8_of(path));
  const std::string_view text = as_text(file.bytes());
  if (Json::parse(text, where).find("model_type") == nullptr) return;  // not transformers'
  state_dict.metadata["config"] = text;
  state_dict.source += " with " + std::string(kConfigFile);
  add_folder_preprocessor(state_dict, folder);
}

}  // namespace

fs::path resolve_checkpoint(const fs::path& source, std::string_view prefer) {
  if (!fs::is_directory(source)) return source;
  std::vector<std::string> names = files_of(source, 0);
  if (!has_checkpoint(names)) names = files_of(source, 2);
  if (!has_checkpoint(names)) refuse_folder(source);
  const std::string chosen =
      choose_checkpoint(names, {.where = printable(utf8_of(source)),
                                .argument = "prefer=",
                                .prefer = prefer,
                                .adapter_base = base_of_adapter(source),
                                .is_other = [&](const std::string& name) {
                                  return is_saved_state(source / path_of(name));
                                }});
  return source / path_of(chosen);
}

StateDict open_tensors(const fs::path& path) { return open_file(path, {.any = true}); }

StateDict open_checkpoint(const fs::path& source, const WrapperChoice& choice) {
  const fs::path path = resolve_checkpoint(source);
  if (fs::is_directory(source)) refuse_quantized_folder(source);
  StateDict result;
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string_view text = as_text(file->bytes());
  if (text.starts_with("{") && !looks_like_safetensors(text)) {
    result = open_shards(text, path, printable(utf8_of(path)), choice);
  } else {
    result = open_file(path, choice);
  }
  strip_wrappers(result, choice);
  add_folder_config(result, path.parent_path());
  return result;
}

}  // namespace sam_rlx
