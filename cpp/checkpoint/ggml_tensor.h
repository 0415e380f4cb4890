#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/state_dict.h"

// What files of ggml's kind share: GGUF, and that of sam3.cpp.

namespace sam_rlx {

// The dtype of ggml's type number. UnsupportedError names the types that are read.
DType ggml_dtype(std::uint32_t number, const std::string& location);

// Sets the strides of a tensor whose rows are one behind the other, and returns its bytes. Raises
// CheckpointError when they do not fit 63 bits or the rows are not whole blocks.
std::int64_t lay_out_ggml(TensorEntry& entry, const std::string& location);

}  // namespace sam_rlx
