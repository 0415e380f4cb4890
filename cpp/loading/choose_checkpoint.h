#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sam_rlx {

// Kinds of checkpoint files by how a name ends, beside the indices of shards.
inline constexpr std::string_view kCheckpointSuffixes[] = {".safetensors", ".gguf", ".ggml",
                                                           ".pth",         ".pt",   ".bin"};
// Settings of transformers' models, beside the weights.
inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kPreprocessorFile = "preprocessor_config.json";
inline constexpr const char* kProcessorFile = "processor_config.json";
// Settings and weights of an adapter of PEFT.
inline constexpr const char* kAdapterFile = "adapter_config.json";
inline constexpr const char* kAdapterWeights[] = {"adapter_model.safetensors", "adapter_model.bin"};

struct CheckpointQuestion {
  std::string where;               // the folder or the repository, for messages
  std::string_view argument = {};  // of load_model, that names one of several
  std::string_view prefer = {};    // part of the name, in small or capital letters
  std::string adapter_base = {};   // the model that an adapter was trained for, if it is known
  // Whether a file holds something else than a model; asked where several names are left.
  std::function<bool(const std::string&)> is_other = {};
};

// Which of the files of a folder or a repository is the checkpoint, by their names alone: paths
// with "/", of files. model.safetensors, else the only shard index, else pytorch_model.bin, else
// the only file with one of the suffixes, but for what a training leaves beside the weights
// (optimizer.pt, training_args.bin, ...) and hidden files; of a GGUF checkpoint in several files
// only the first counts. Where the folder itself has none, the same holds in the only folder inside
// that has some, at most two levels down. With `prefer` it is the only one of all these whose name
// contains that text. CheckpointError lists the candidates when there are none or several,
// UnsupportedError names an adapter and a distributed checkpoint.
std::string choose_checkpoint(const std::vector<std::string>& names,
                              const CheckpointQuestion& question);

// Whether any of these may be a checkpoint without a look into folders.
bool has_checkpoint(const std::vector<std::string>& names);

// Whether a name is that of an index of shards.
bool is_shard_index(std::string_view name);

}  // namespace sam_rlx
