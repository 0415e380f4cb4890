#pragma once

#include <filesystem>
#include <string_view>

#include "checkpoint/state_dict.h"
#include "loading/wrappers.h"

namespace sam_rlx {

// The file that a source stands for. A file stands for itself, a folder for the file that
// choose_checkpoint names.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& source,
                                         std::string_view prefer = {});

// Opens a safetensors file, a shard index, a GGUF file or the first of several, a .ggml file of
// sam3.cpp, or a PyTorch file, old or new; the content decides, not the name. Names are those of
// the file, but for GGUF's short names, those that a side-car file (tensor_map.h) replaces, and
// what wraps a model (wrappers.h). Nothing of the tensors is read yet. Where names are
// transformers', metadata has the config.json beside the file as "config", unless the file brings
// its own.
StateDict open_checkpoint(const std::filesystem::path& source, const WrapperChoice& choice = {});

// The tensors of one file as they are named there, of a PyTorch file those of its largest dict that
// may be a model's.
StateDict open_tensors(const std::filesystem::path& path);

}  // namespace sam_rlx
