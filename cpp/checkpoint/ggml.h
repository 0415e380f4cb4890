#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Whether a file begins as those of sam3.cpp do, which end in .ggml.
bool is_sam3cpp_file(std::string_view content);

// Reads a file of sam3.cpp: a header of numbers in a fixed order, one record for each tensor, and
// with a text encoder the tokenizer, of which only the frame is checked: the vocabulary is the one
// that this library has. Metadata has the keys of the GGUF files of its fork: sam3.version,
// sam3.ftype, sam3.hparams.<name>, lists as JSON; "family" is sam2 or sam3. The entries point into
// the bytes and have the names of the file.
StateDict read_ggml(std::span<const std::byte> bytes, const std::string& where);

}  // namespace sam_rlx
