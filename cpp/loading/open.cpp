#include "loading/open.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <regex>
#include <string_view>

#include "checkpoint/byte_reader.h"
#include "checkpoint/ggml.h"
#include "checkpoint/gguf.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/text.h"
#include "checkpoint/torch_archive.h"
#include "checkpoint/torch_legacy.h"
#include "core/error.h"
#include "loading/family.h"
#include "loading/tensor_map.h"

namespace sam_rlx {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

std::string list_names(const std::vector<fs::path>& paths) {
  constexpr std::size_t kMax = 20;
  if (paths.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < paths.size() && i < kMax; ++i) {
    text += (i == 0 ? "" : ", ") + printable(paths[i].filename().string());
  }
  return paths.size() > kMax ? text + ", ..." : text;
}

// True when the file begins as safetensors does: a length, then '{'. A JSON text or a pickle may
// have '{' at the same place, but no zeros before it.
bool looks_like_safetensors(std::string_view text) {
  if (text.size() < 9 || text[8] != '{') return false;
  return (text[0] != '{' && text[0] != '\x80') || text.substr(4, 4) == "\0\0\0\0"sv;
}

// Files of other runtimes, whose graphs hold the weights under other names or none.
void refuse_other_runtimes(std::string_view text, const std::string& where) {
  struct Kind {
    std::size_t at;
    std::string_view begin, name, help;
  };
  constexpr std::string_view kOriginal = "load the PyTorch checkpoint that it was made from";
  constexpr std::string_view kGgml = "load the PyTorch checkpoint, or GGUF of `sam-rlx convert`";
  constexpr Kind kKinds[] = {
      {0, "lmgg"sv, "a ggml file of another program", kGgml},
      {0, "tjgg"sv, "a ggjt file of another program", kGgml},
      {0, "fmgg"sv, "a ggmf file of another program", kGgml},
      {4, "TFL3"sv, "a TensorFlow Lite model", kOriginal},
      {0, "\x89HDF"sv, "an HDF5 file", kOriginal},
      {0, "<?xml"sv, "an XML file (OpenVINO?)", kOriginal},
      {0, "ftrt"sv, "a TensorRT engine", kOriginal},
  };
  const auto refuse = [&](std::string_view name, std::string_view help) {
    fail<UnsupportedError>(where, "a safetensors, GGUF or PyTorch file",
                           std::string(name).append(": ").append(help));
  };
  for (const Kind& kind : kKinds) {
    if (text.size() > kind.at && text.substr(kind.at).starts_with(kind.begin)) {
      refuse(kind.name, kind.help);
    }
  }
  // Protocol buffers: field 1, the version of the format; then field 2, the producer, or field 7,
  // the graph.
  const bool onnx = text.size() > 3 && text[0] == '\x08' && text[1] > 0 && text[1] < 32 &&
                    (text[2] == '\x12' || text[2] == '\x3a');
  if (onnx) refuse("an ONNX model", kOriginal);
}

[[noreturn]] void refuse_content(std::string_view text, const std::string& where) {
  std::string found = quoted(text.substr(0, 16)) + " at its beginning";
  if (text.empty()) found = "an empty file";
  if (text.size() > 262 && text.substr(257, 5) == "ustar") {
    throw UnsupportedError(where +
                           ": expected safetensors, GGUF, or PyTorch from 0.4 on, found a tar "
                           "file; save it again with a current PyTorch");
  }
  if (text.starts_with("version https://git-lfs")) found = "a Git LFS pointer, not the file itself";
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<html")) {
    found += ", a web page, not the file itself";
  }
  refuse_other_runtimes(text, where);
  fail<CheckpointError>(where, "a safetensors, GGUF or PyTorch file", found);
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
                       shard.find('\0') == std::string::npos && !shard.ends_with(kIndexSuffix);
    if (!plain) fail<CheckpointError>(where, "plain file names of shards", printable(shard));
    StateDict part = open_file(index.parent_path() / shard, choice);
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
    return read_torch_archive(bytes, where, choose);
  }
  if (is_sam3cpp_file(text)) {
    StateDict result = read_ggml(bytes, where);
    result.origin.container = "ggml";
    return result;
  }
  if (looks_like_safetensors(text)) {
    StateDict result = read_safetensors(bytes, where);
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
  const std::string name = path.filename().string(), where = printable(path.string());
  const auto open_part = [&](std::int64_t part, std::int64_t count) -> GgufFile {
    const std::string suffix = part_suffix(0, count);
    if (!name.ends_with(suffix)) {
      fail<CheckpointError>(where, "a name that ends in " + suffix, printable(name));
    }
    const std::string stem = name.substr(0, name.size() - suffix.size());
    const fs::path other = path.parent_path() / (stem + part_suffix(part, count));
    files.push_back(std::make_shared<const MappedFile>(other));
    return {files.back()->bytes(), printable(other.string())};
  };
  StateDict result = read_gguf({first->bytes(), where}, open_part, family_names());
  result.files = std::move(files);
  result.origin.container = "GGUF";
  orient_matrices(result, apply_tensor_map(result, path));
  restore_long_names(result);
  return result;
}

StateDict open_file(const fs::path& path, const WrapperChoice& choice) {
  const auto file = std::make_shared<const MappedFile>(path);
  if (as_text(file->bytes()).starts_with("GGUF")) return open_gguf(path, file);
  StateDict result = read_content(file->bytes(), printable(path.string()), choice);
  result.files.push_back(file);
  apply_tensor_map(result, path);
  return result;
}

bool has_suffix(const fs::path& path, std::string_view suffix) {
  return path.filename().string().ends_with(suffix);
}

// Whether this is one of several GGUF files, but not their first: "x-00002-of-00003.gguf".
bool is_later_part(const fs::path& path) {
  static const std::regex kPart(".*-[0-9]{5}-of-[0-9]{5}\\.gguf"),
      kFirst(".*-00001-of-[0-9]{5}\\.gguf");
  const std::string name = path.filename().string();
  return std::regex_match(name, kPart) && !std::regex_match(name, kFirst);
}

bool contains_text(const fs::path& path, std::string_view text) {
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  const std::string name = path.filename().string();
  return std::search(name.begin(), name.end(), text.begin(), text.end(), [&](char a, char b) {
           return lower(static_cast<unsigned char>(a)) == lower(static_cast<unsigned char>(b));
         }) != name.end();
}

}  // namespace

fs::path resolve_checkpoint(const fs::path& source, std::string_view prefer) {
  if (!fs::is_directory(source)) return source;
  const fs::path usual = source / "model.safetensors";
  if (prefer.empty() && fs::exists(usual)) return usual;
  std::vector<fs::path> indices;
  std::vector<fs::path> candidates;
  for (const auto& item : fs::directory_iterator(source)) {
    if (!item.is_regular_file() || is_later_part(item.path())) continue;
    if (has_suffix(item.path(), kIndexSuffix)) indices.push_back(item.path());
    for (const std::string_view suffix :
         {".safetensors"sv, ".gguf"sv, ".ggml"sv, ".pth"sv, ".pt"sv, ".bin"sv}) {
      if (has_suffix(item.path(), suffix)) candidates.push_back(item.path());
    }
  }
  if (!prefer.empty()) {
    candidates.insert(candidates.end(), indices.begin(), indices.end());
    std::sort(candidates.begin(), candidates.end());
    std::vector<fs::path> preferred;
    std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(preferred),
                 [&](const fs::path& path) { return contains_text(path, prefer); });
    if (preferred.size() == 1) return preferred.front();
    fail<CheckpointError>(printable(source.string()),
                          "one checkpoint with " + quoted(prefer) + " in its name",
                          list_names(preferred.empty() ? candidates : preferred));
  }
  std::vector<fs::path>& choice = indices.empty() ? candidates : indices;
  std::sort(choice.begin(), choice.end());
  if (choice.size() != 1) {
    fail<CheckpointError>(printable(source.string()),
                          "model.safetensors, one shard index, or one .safetensors, .gguf, .ggml, "
                          ".pth, .pt or .bin file",
                          list_names(choice));
  }
  return choice.front();
}

StateDict open_checkpoint(const fs::path& source, const WrapperChoice& choice) {
  const fs::path path = resolve_checkpoint(source);
  StateDict result;
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string_view text = as_text(file->bytes());
  if (text.starts_with("{") && !looks_like_safetensors(text)) {
    result = open_shards(text, path, printable(path.string()), choice);
  } else {
    result = open_file(path, choice);
  }
  strip_wrappers(result, choice);
  return result;
}

}  // namespace sam_rlx
