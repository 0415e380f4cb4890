#pragma once

#include <filesystem>
#include <string_view>

#include "checkpoint/state_dict.h"
#include "loading/wrappers.h"

namespace sam_rlx {

// The file that a source stands for. A file stands for itself. A folder stands for its
// model.safetensors, else for its only shard index, else for its only .safetensors, .gguf, .ggml,
// .pth, .pt or .bin file; of a GGUF checkpoint in several files only the first counts. With
// `prefer` it stands for the only one of all these whose name contains that text, in small or
// capital letters. CheckpointError lists the candidates when there are none or several.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& source,
                                         std::string_view prefer = {});

// Opens a safetensors file, a shard index, a GGUF file or the first of several, a .ggml file of
// sam3.cpp, or a PyTorch file, old or new; the content decides, not the name. Names are those of
// the file, but for GGUF's short names, those that a side-car file (tensor_map.h) replaces, and
// what wraps a model (wrappers.h). Nothing of the tensors is read yet.
StateDict open_checkpoint(const std::filesystem::path& source, const WrapperChoice& choice = {});

}  // namespace sam_rlx
