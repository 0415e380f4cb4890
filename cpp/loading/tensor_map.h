#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Some converters give tensors opaque names, and write the real ones into a file beside theirs,
// `<file>.tensor_map.json`: {"a1b2c3d4e5f6": "image_encoder.pos_embed", ...}. Replaces the names
// that are in it, if there is one, and tells whether there was.
bool apply_tensor_map(StateDict& state_dict, const std::filesystem::path& path);

// The same converters write the sizes of packed matrices in PyTorch's order, (out, in), where GGUF
// has the innermost first; the numbers are in the same order in both. A bias is as long as its
// matrix has rows: most of these pairs decide, and where none does, `swapped`. Raises
// CheckpointError, which names `where`, for rows that are not whole blocks.
void orient_matrices(StateDict& state_dict, bool swapped, const std::string& where);

}  // namespace sam_rlx
