#include "loading/choose_checkpoint.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kUsual = "model.safetensors", kOlder = "pytorch_model.bin";
// Of an index of shards, in order of preference.
constexpr std::string_view kIndexSuffixes[] = {".safetensors.index.json", ".bin.index.json"};
// Beside the weights in folders of transformers and of its Trainer, with none of them inside.
constexpr std::string_view kCompanions[] = {"optimizer.",     "scheduler.",    "scaler.",
                                            "training_args.", "rng_state",     "random_states_",
                                            "adapter_model.", "trainer_state."};
constexpr std::string_view kDeepSpeedOptimizer = "_optim_states.pt";
constexpr std::string_view kDistributed = ".distcp";
constexpr std::ptrdiff_t kMaxDepth = 2;

template <class List>
bool ends_with_any(std::string_view name, const List& suffixes) {
  for (const std::string_view suffix : suffixes) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

// Whether this is one of several GGUF files, but not their first: "x-00002-of-00003.gguf".
bool is_later_part(std::string_view name) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf", kFirst = "-00001";  // 0: any digit
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (name.size() < kForm.size()) return false;
  const std::string_view end = name.substr(name.size() - kForm.size());
  const bool part = std::equal(end.begin(), end.end(), kForm.begin(), [&](char c, char form) {
    return form == '0' ? is_digit(c) : c == form;
  });
  return part && !end.starts_with(kFirst);
}

bool is_companion(std::string_view name) {
  for (const std::string_view begin : kCompanions) {
    if (name.starts_with(begin)) return true;
  }
  return name.ends_with(kDeepSpeedOptimizer);
}

bool contains_text(std::string_view name, std::string_view text) {
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  return std::search(name.begin(), name.end(), text.begin(), text.end(), [&](char a, char b) {
           return lower(static_cast<unsigned char>(a)) == lower(static_cast<unsigned char>(b));
         }) != name.end();
}

std::string list_names(const Names& names) {
  constexpr std::size_t kMax = 20;
  if (names.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMax; ++i) {
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  return names.size() > kMax ? text + ", ..." : text;
}

// The files of one folder that may hold a model, sorted.
struct CheckpointFolder {
  Names indices, checkpoints;
  bool is_adapter = false, is_distributed = false;

  void add(const std::string& name) {
    is_adapter = is_adapter || name == kAdapterFile;
    is_distributed = is_distributed || name.ends_with(kDistributed);
    if (name.starts_with(".") || is_later_part(name) || is_companion(name)) return;
    if (is_shard_index(name)) indices.push_back(name);
    if (ends_with_any(name, kCheckpointSuffixes)) checkpoints.push_back(name);
  }

  bool empty() const { return indices.empty() && checkpoints.empty() && !is_adapter; }
  bool has(std::string_view name) const {
    return std::binary_search(checkpoints.begin(), checkpoints.end(), name);
  }

  // What the folder stands for: one name, or several to choose from.
  Names candidates() const {
    if (has(kUsual)) return {std::string(kUsual)};
    for (const std::string_view suffix : kIndexSuffixes) {
      Names found;
      std::copy_if(indices.begin(), indices.end(), std::back_inserter(found),
                   [&](const std::string& name) { return name.ends_with(suffix); });
      if (!found.empty()) return found;
    }
    return has(kOlder) ? Names{std::string(kOlder)} : checkpoints;
  }
};

// By their paths, which end with "/" but for that of the root.
std::map<std::string, CheckpointFolder> folders_of(Names names) {
  std::sort(names.begin(), names.end());
  std::map<std::string, CheckpointFolder> folders;
  for (const std::string& name : names) {
    const std::size_t end = name.rfind('/') + 1;  // 0 without a folder
    const std::string path = name.substr(0, end);
    const bool hidden = path.starts_with(".") || path.find("/.") != std::string::npos;
    if (hidden || std::count(path.begin(), path.end(), '/') > kMaxDepth) continue;
    folders[path].add(name.substr(end));
  }
  std::erase_if(folders, [](const auto& entry) {
    return entry.second.empty() && !(entry.first.empty() && entry.second.is_distributed);
  });
  return folders;
}

std::string choose_preferred(const CheckpointFolder& folder, const CheckpointQuestion& question) {
  Names all = folder.checkpoints, preferred;
  all.insert(all.end(), folder.indices.begin(), folder.indices.end());
  std::sort(all.begin(), all.end());
  std::copy_if(all.begin(), all.end(), std::back_inserter(preferred),
               [&](const std::string& name) { return contains_text(name, question.prefer); });
  if (preferred.size() == 1) return preferred.front();
  fail<CheckpointError>(question.where,
                        "one checkpoint with " + quoted(question.prefer) + " in its name",
                        list_names(preferred.empty() ? all : preferred));
}

[[noreturn]] void fail_to_choose(const CheckpointQuestion& question, const std::string& found) {
  const std::string named = question.argument.empty()
                                ? ""
                                : " (" + std::string(question.argument) + " names one of several)";
  fail<CheckpointError>(question.where,
                        "model.safetensors, one shard index, or one .safetensors, .gguf, .ggml, "
                        ".pth, .pt or .bin file" +
                            named,
                        found);
}

// An adapter changes the model that it was trained for: without it, masks are not those of the
// folder.
void refuse_adapter(const CheckpointQuestion& question) {
  const std::string base =
      question.adapter_base.empty() ? "" : " of " + printable(question.adapter_base);
  throw UnsupportedError(
      question.where + ": expected a whole model, found an adapter (LoRA)" + base +
      ": load that model with lora= and this one (on the command line --lora), which merges them");
}

}  // namespace

bool is_shard_index(std::string_view name) { return ends_with_any(name, kIndexSuffixes); }

bool has_checkpoint(const std::vector<std::string>& names) {
  const std::map<std::string, CheckpointFolder> folders = folders_of(names);
  return folders.contains("");
}

std::string choose_checkpoint(const std::vector<std::string>& names,
                              const CheckpointQuestion& question) {
  const std::map<std::string, CheckpointFolder> folders = folders_of(names);
  const bool inside = !folders.contains("");  // the folder itself has none
  if (folders.empty()) fail_to_choose(question, "none");
  if (inside && folders.size() > 1) {
    Names paths;
    for (const auto& [path, folder] : folders) paths.push_back(path.substr(0, path.size() - 1));
    fail_to_choose(question, list_names(paths) + " (folders)");
  }
  const auto& [path, folder] = *folders.begin();
  if (!question.prefer.empty()) return path + choose_preferred(folder, question);
  if (folder.is_adapter) refuse_adapter(question);
  Names found = folder.candidates();
  if (found.empty()) {
    fail<UnsupportedError>(
        question.where, "one file or shards with an index",
        "a distributed checkpoint (.distcp): write it as one file with python -m "
        "torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE");
  }
  if (found.size() > 1 && question.is_other) {
    Names models;
    std::copy_if(found.begin(), found.end(), std::back_inserter(models),
                 [&](const std::string& name) { return !question.is_other(path + name); });
    if (!models.empty()) found = models;
  }
  if (found.size() > 1) fail_to_choose(question, list_names(found));
  return path + found.front();
}

}  // namespace sam_rlx
