#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/state_dict.h"

namespace sam_rlx {

// A name that begins with `from` begins with `to` in Meta's dialect. "{i}" stands for a number,
// the same on both sides, in order.
struct KeyRow {
  std::string_view from;
  std::string_view to;
};

// The name by the first row that fits; none when no row does.
std::optional<std::string> map_key(std::span<const KeyRow> rows, std::string_view name);

// The same; the name itself when no row fits.
std::string mapped_key(std::span<const KeyRow> rows, std::string_view name);

// The rows from Meta's names to the others, in the same order: the first that fits is taken in both
// directions.
std::vector<KeyRow> reversed(std::span<const KeyRow> rows);

// True when the name begins with the pattern, in which "{i}" stands for a number.
bool matches_key(std::string_view pattern, std::string_view name);

// transformers ties these two; a file holds one of them or both.
constexpr std::string_view kEncodingName = "prompt_encoder.shared_embedding.positional_embedding";
constexpr std::string_view kEncodingCopy = "shared_image_embedding.positional_embedding";

// transformers keeps the four kinds of points of SAM 2 and SAM 3 in one table of the prompt
// encoder.
void split_points(StateDict& state_dict, const std::string& prompt_encoder);

// Renames by rows from other spellings of Meta's names, where the file has not both.
void respell(StateDict& state_dict, std::span<const KeyRow> rows);

// Renames by rows from transformers' names. A second copy of the same tensor is dropped.
void rename_from_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows);

// The reverse of both, with both copies of the tied table.
void join_points(StateDict& state_dict, const std::string& prompt_encoder);
void copy_encoding(StateDict& state_dict, const std::string& prefix);
void rename_to_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows);

}  // namespace sam_rlx
