#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// Reads a safetensors file: 8 bytes header length, JSON header, tensor data without holes and
// overlaps. `where` names the file in messages. The entries point into `bytes`.
StateDict read_safetensors(std::span<const std::byte> bytes, const std::string& where);

}  // namespace sam_rlx
