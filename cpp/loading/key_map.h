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

// transformers has Meta's one random matrix of positions twice, for clicks and for the image. A
// file holds one of them or both.
constexpr std::string_view kEncodingName = "prompt_encoder.shared_embedding.positional_embedding";
constexpr std::string_view kEncodingCopy = "shared_image_embedding.positional_embedding";

// transformers keeps the four kinds of points of SAM 2 and SAM 3 in one table of the prompt
// encoder.
void split_points(StateDict& state_dict, const std::string& prompt_encoder);

// Renames by rows from other spellings of Meta's names, where the file has not both.
void respell(StateDict& state_dict, std::span<const KeyRow> rows);

// Two tensors that Meta's layout has once: the second is dropped. Raises UnsupportedError where
// their numbers differ, as in a network of transformers 5 that was made from a config.
void drop_copy(StateDict& state_dict, const std::string& copy, const std::string& original);

// Heads of several layers, whose hidden ones transformers counts from 0 between proj_in and
// proj_out and Meta with them. The same for one name, of a head of a release.
void number_layers(StateDict& state_dict);
void unnumber_layers(StateDict& state_dict);
std::string numbered_layer(std::string_view name);

// Renames by rows from transformers' names, after both of these.
void rename_from_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows);

// The reverse of both, with both copies of the tied table.
void join_points(StateDict& state_dict, const std::string& prompt_encoder);
void copy_encoding(StateDict& state_dict, const std::string& prefix);
void rename_to_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows);

}  // namespace sam_rlx
