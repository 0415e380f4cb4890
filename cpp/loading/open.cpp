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
#include "loading/containers.h"
#include "loading/family.h"
#include "loading/quantizers.h"
#include "loading/tensor_map.h"

namespace sam_rlx {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

// Of an index of shards, in order of preference.
constexpr std::string_view kIndexSuffixes[] = {".safetensors.index.json", ".bin.index.json"};
// Beside the weights in folders of transformers and of its Trainer, with none of them inside.
constexpr std::string_view kCompanions[] = {"optimizer.",     "scheduler.",    "scaler.",
                                            "training_args.", "rng_state",     "random_states_",
                                            "adapter_model.", "trainer_state."};
constexpr std::string_view kDeepSpeedOptimizer = "_optim_states.pt";
constexpr std::string_view kDistributed = ".distcp";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kPreprocessorFile = "preprocessor_config.json";
constexpr const char* kProcessorFile = "processor_config.json";
constexpr const char* kImagePart = "image_processor";  // of the processor's file
constexpr const char* kAdapterFile = "adapter_config.json";

std::string list_names(const std::vector<fs::path>& paths) {
  constexpr std::size_t kMax = 20;
  if (paths.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < paths.size() && i < kMax; ++i) {
    text += (i == 0 ? "" : ", ") + printable(utf8_of(paths[i].filename()));
  }
  return paths.size() > kMax ? text + ", ..." : text;
}

// True when the file begins as safetensors does: a length, then '{'. A JSON text or a pickle may
// have '{' at the same offset, but no zeros before it.
bool looks_like_safetensors(std::string_view text) {
  if (text.size() < 9 || text[8] != '{') return false;
  return (text[0] != '{' && text[0] != '\x80') || text.substr(4, 4) == "\0\0\0\0"sv;
}

StateDict open_file(const fs::path& path, const WrapperChoice& choice);

bool is_index(std::string_view name) {
  for (const std::string_view suffix : kIndexSuffixes) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

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
                       shard.find('\0') == std::string::npos && !is_index(shard);
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

bool has_suffix(const fs::path& path, std::string_view suffix) {
  return utf8_of(path.filename()).ends_with(suffix);
}

// Whether this is one of several GGUF files, but not their first: "x-00002-of-00003.gguf".
bool is_later_part(const fs::path& path) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf", kFirst = "-00001";  // 0: any digit
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string name = utf8_of(path.filename());
  if (name.size() < kForm.size()) return false;
  const std::string_view end = std::string_view(name).substr(name.size() - kForm.size());
  const bool part = std::equal(end.begin(), end.end(), kForm.begin(), [&](char c, char form) {
    return form == '0' ? is_digit(c) : c == form;
  });
  return part && !end.starts_with(kFirst);
}

bool contains_text(const fs::path& path, std::string_view text) {
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  const std::string name = utf8_of(path.filename());
  return std::search(name.begin(), name.end(), text.begin(), text.end(), [&](char a, char b) {
           return lower(static_cast<unsigned char>(a)) == lower(static_cast<unsigned char>(b));
         }) != name.end();
}

bool is_companion(const fs::path& path) {
  const std::string name = utf8_of(path.filename());
  for (const std::string_view begin : kCompanions) {
    if (name.starts_with(begin)) return true;
  }
  return name.ends_with(kDeepSpeedOptimizer);
}

// Regular files that may hold a model, sorted by name.
struct Candidates {
  std::vector<fs::path> indices, checkpoints, training_steps;
  bool distributed = false;  // as torch.distributed.checkpoint writes

  explicit Candidates(const fs::path& folder) {
    for (const auto& item : fs::directory_iterator(folder)) {
      const fs::path& path = item.path();
      if (item.is_directory() && utf8_of(path.filename()).starts_with("checkpoint-")) {
        training_steps.push_back(path);
      }
      distributed = distributed || has_suffix(path, kDistributed);
      if (!item.is_regular_file() || is_later_part(path) || is_companion(path)) continue;
      if (is_index(utf8_of(path.filename()))) indices.push_back(path);
      for (const std::string_view suffix :
           {".safetensors"sv, ".gguf"sv, ".ggml"sv, ".pth"sv, ".pt"sv, ".bin"sv}) {
        if (has_suffix(path, suffix)) checkpoints.push_back(path);
      }
    }
    for (auto* const paths : {&indices, &checkpoints, &training_steps}) {
      std::sort(paths->begin(), paths->end());
    }
  }

  // The only index with the first suffix that any has.
  std::vector<fs::path> preferred_indices() const {
    for (const std::string_view suffix : kIndexSuffixes) {
      std::vector<fs::path> found;
      std::copy_if(indices.begin(), indices.end(), std::back_inserter(found),
                   [&](const fs::path& path) { return has_suffix(path, suffix); });
      if (!found.empty()) return found;
    }
    return {};
  }
};

fs::path resolve_preferred(const fs::path& source, std::string_view prefer) {
  const Candidates all(source);
  std::vector<fs::path> candidates = all.checkpoints;
  candidates.insert(candidates.end(), all.indices.begin(), all.indices.end());
  std::sort(candidates.begin(), candidates.end());
  std::vector<fs::path> preferred;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(preferred),
               [&](const fs::path& path) { return contains_text(path, prefer); });
  if (preferred.size() == 1) return preferred.front();
  fail<CheckpointError>(printable(utf8_of(source)),
                        "one checkpoint with " + quoted(prefer) + " in its name",
                        list_names(preferred.empty() ? candidates : preferred));
}

// An adapter changes the model that it was trained for: without it, masks are not those of the
// folder.
void refuse_adapter(const fs::path& folder) {
  const fs::path path = folder / kAdapterFile;
  if (!fs::exists(path)) return;
  const std::string where = printable(utf8_of(path));
  const MappedFile file(path);
  const Json json = Json::parse(as_text(file.bytes()), where);
  const Json* const base = json.find("base_model_name_or_path");
  const bool named = base != nullptr && base->is_string();
  throw UnsupportedError(
      where + ": expected a whole model, found an adapter (LoRA)" +
      (named ? " of " + printable(base->string(where)) : "") +
      "; merge it first, with peft: model.merge_and_unload().save_pretrained(...)");
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
  if (!prefer.empty()) return resolve_preferred(source, prefer);
  refuse_adapter(source);
  const fs::path usual = source / "model.safetensors", older = source / "pytorch_model.bin";
  if (fs::exists(usual)) return usual;
  const Candidates all(source);
  const std::vector<fs::path> indices = all.preferred_indices();
  if (indices.empty() && fs::exists(older)) return older;
  const std::vector<fs::path>& choice = indices.empty() ? all.checkpoints : indices;
  if (choice.size() == 1) return choice.front();
  if (choice.empty()) refuse_folder(source);
  if (choice.empty() && all.distributed) {
    fail<UnsupportedError>(
        printable(utf8_of(source)), "one file or shards with an index",
        "a distributed checkpoint (.distcp): write it as one file with python -m "
        "torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE");
  }
  const std::vector<fs::path>& found = choice.empty() ? all.training_steps : choice;
  fail<CheckpointError>(printable(utf8_of(source)),
                        "model.safetensors, one shard index, or one .safetensors, .gguf, .ggml, "
                        ".pth, .pt or .bin file",
                        list_names(found) + (choice.empty() && !found.empty() ? " (folders)" : ""));
}

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
