#include "checkpoint/open.h"

#include <algorithm>
#include <string_view>

#include "checkpoint/byte_reader.h"
#include "checkpoint/gguf.h"
#include "checkpoint/json.h"
#include "checkpoint/key_map.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/text.h"
#include "checkpoint/torch_archive.h"
#include "checkpoint/torch_legacy.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

std::string list_names(const std::vector<fs::path>& paths) {
  constexpr std::size_t kMost = 20;
  if (paths.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < paths.size() && i < kMost; ++i) {
    text += (i == 0 ? "" : ", ") + printable(paths[i].filename().string());
  }
  return paths.size() > kMost ? text + ", ..." : text;
}

// True when the file begins as safetensors does: a length, then '{'. A JSON text or a pickle may
// have '{' at the same place, but no zeros before it.
bool looks_like_safetensors(std::string_view text) {
  if (text.size() < 9 || text[8] != '{') return false;
  return (text[0] != '{' && text[0] != '\x80') || text.substr(4, 4) == "\0\0\0\0"sv;
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
  fail<CheckpointError>(where, "a safetensors, GGUF or PyTorch file", found);
}

StateDict open_file(const fs::path& path);

StateDict open_shards(std::string_view text, const fs::path& index, const std::string& where) {
  constexpr std::size_t kMostShards = 1000;
  const Json json = Json::parse(text, where);
  const Json& weight_map = json.at("weight_map", where);
  std::vector<std::string> shards;
  for (const auto& [name, shard] : weight_map.object(where + ": weight_map")) {
    shards.push_back(shard.string(where + ": " + printable(name)));
  }
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  if (shards.size() > kMostShards) {
    fail<CheckpointError>(where, "at most 1000 shards", std::to_string(shards.size()));
  }
  StateDict result;
  result.source = where;
  for (const std::string& shard : shards) {
    const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                       shard.find_first_of("/\\:"sv) == std::string::npos &&
                       shard.find('\0') == std::string::npos && !shard.ends_with(kIndexSuffix);
    if (!plain) fail<CheckpointError>(where, "plain file names of shards", printable(shard));
    result.merge(open_file(index.parent_path() / shard));
  }
  for (const auto& [name, shard] : weight_map.object(where)) {
    if (!result.contains(name)) {
      fail<CheckpointError>(where + ": " + printable(name),
                            "the tensor in " + printable(shard.string(where)), "none");
    }
  }
  return result;
}

StateDict read_content(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) {
    return read_torch_archive(bytes, where);
  }
  if (looks_like_safetensors(text)) return read_safetensors(bytes, where);
  if (text.starts_with("GGUF")) return read_gguf(bytes, where);
  if (text.starts_with("\x80")) return read_torch_legacy(bytes, where);
  refuse_content(text, where);
}

StateDict open_file(const fs::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  StateDict result = read_content(file->bytes(), printable(path.string()));
  result.files.push_back(file);
  return result;
}

bool has_suffix(const fs::path& path, std::string_view suffix) {
  return path.filename().string().ends_with(suffix);
}

}  // namespace

fs::path resolve_checkpoint(const fs::path& source) {
  if (!fs::is_directory(source)) return source;
  const fs::path usual = source / "model.safetensors";
  if (fs::exists(usual)) return usual;
  std::vector<fs::path> indices;
  std::vector<fs::path> candidates;
  for (const auto& item : fs::directory_iterator(source)) {
    if (!item.is_regular_file()) continue;
    if (has_suffix(item.path(), kIndexSuffix)) indices.push_back(item.path());
    for (const std::string_view suffix :
         {".safetensors"sv, ".gguf"sv, ".pth"sv, ".pt"sv, ".bin"sv}) {
      if (has_suffix(item.path(), suffix)) candidates.push_back(item.path());
    }
  }
  std::vector<fs::path>& choice = indices.empty() ? candidates : indices;
  std::sort(choice.begin(), choice.end());
  if (choice.size() != 1) {
    fail<CheckpointError>(printable(source.string()),
                          "model.safetensors, one shard index, or one .safetensors, .gguf, .pth, "
                          ".pt or .bin file",
                          list_names(choice));
  }
  return choice.front();
}

StateDict open_checkpoint(const fs::path& source) {
  const fs::path path = resolve_checkpoint(source);
  StateDict result;
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string_view text = as_text(file->bytes());
  if (text.starts_with("{") && !looks_like_safetensors(text)) {
    result = open_shards(text, path, printable(path.string()));
  } else {
    result = open_file(path);
  }
  strip_common_prefixes(result);
  return result;
}

}  // namespace sam_rlx
