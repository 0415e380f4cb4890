#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/byte_reader.h"

namespace sam_rlx {

// The metadata of a GGUF file: numbers, truth values and texts as text, lists of at most 64 whole
// numbers as JSON ("[1, 2]"), and lists of texts. Other lists are read over.
struct GgufMetadata {
  std::map<std::string, std::string> values;
  std::map<std::string, std::vector<std::string>> texts;
  std::int64_t alignment = 32;  // of the tensors
};

// A length and so many bytes of UTF-8. `what` names it in messages.
std::string take_gguf_text(ByteReader& reader, const std::string& what, std::uint64_t longest);

// Reads `count` keys and values. Raises CheckpointError for what is damaged: unknown types, keys
// that are there twice, lists that are longer than the file or too deep.
GgufMetadata take_gguf_metadata(ByteReader& reader, std::uint64_t count);

}  // namespace sam_rlx
