#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

struct GgufFile {
  std::span<const std::byte> bytes;
  std::string where;  // names it in messages
};
// Opens file `part` of `count`, counted from 0, of a checkpoint that is split.
using OpenGgufPart = std::function<GgufFile(std::int64_t part, std::int64_t count)>;
// What general.architecture may say.
using GgufArchitectures = std::vector<std::string_view>;

// Reads a GGUF file, version 2 or 3, little-endian: metadata, names and positions of the tensors,
// and their data, aligned, one behind the other. The entries point into the bytes and have the
// names of the file.
//
// Texts and plain values of the metadata come under their own keys, lists are left out.
// general.architecture (one of those `known`; UnsupportedError for any other) comes as "family"
// too, and <architecture>.variant and .config as "variant" and "config", as in safetensors files.
// Tensors that <architecture>.conv_1x1 to .conv_16x16 list get the two axes of a kernel, which GGUF
// cannot pack.
//
// A file whose split.count is above 1 must be the first of so many (split.no is 0); the others are
// opened in their order, and the metadata of the first holds for all.
StateDict read_gguf(const GgufFile& first, const OpenGgufPart& open_part,
                    const GgufArchitectures& known);

}  // namespace sam_rlx
