#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Reads a GGUF file, version 2 or 3, little-endian: metadata, names and places of the tensors, and
// their data, aligned, one behind the other. `where` names the file in messages. The entries point
// into `bytes` and have Meta's names where the file says that its own are the short ones.
//
// Texts and plain values of the metadata come under their own keys, lists are left out.
// general.architecture ("sam", "sam2" or "sam3"; UnsupportedError for any other) comes as "family"
// too, and <architecture>.variant and .config as "variant" and "config", as in safetensors files.
// Tensors that <architecture>.conv_1x1 lists get the two axes of length 1 that GGUF cannot pack.
StateDict read_gguf(std::span<const std::byte> bytes, const std::string& where);

}  // namespace sam_rlx
