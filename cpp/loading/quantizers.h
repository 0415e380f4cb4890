#pragma once

#include <filesystem>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Weights whose numbers mean something only with scales, tables or keys that stand elsewhere in the
// file: they are named, and never read without. UnsupportedError with the way out.

// By names of tensors, and by what else a file holds.
void refuse_quantized(const StateDict& state_dict);

// By metadata that changes the meaning of bytes, of safetensors files.
void refuse_changed_bytes(const StateDict& state_dict);

// By the config.json beside the weights, which transformers and MLX write.
void refuse_quantized_folder(const std::filesystem::path& folder);

}  // namespace sam_rlx
