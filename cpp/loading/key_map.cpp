#include "loading/key_map.h"

#include <utility>
#include <vector>

namespace sam_rlx {
namespace {

constexpr std::string_view kNumber = "{i}";

bool is_digit(char character) { return character >= '0' && character <= '9'; }

// Length of the part of `name` that the pattern takes, and the numbers in it.
std::optional<std::size_t> match(std::string_view pattern, std::string_view name,
                                 std::vector<std::string_view>& numbers) {
  std::size_t at = 0;
  while (!pattern.empty()) {
    if (pattern.starts_with(kNumber)) {
      const std::size_t begin = at;
      while (at < name.size() && is_digit(name[at])) ++at;
      if (at == begin) return std::nullopt;
      numbers.push_back(name.substr(begin, at - begin));
      pattern.remove_prefix(kNumber.size());
    } else {
      if (at == name.size() || name[at] != pattern.front()) return std::nullopt;
      ++at;
      pattern.remove_prefix(1);
    }
  }
  return at;
}

std::string fill(std::string_view pattern, const std::vector<std::string_view>& numbers) {
  std::string result;
  for (const std::string_view number : numbers) {
    const std::size_t location = pattern.find(kNumber);
    result.append(pattern.substr(0, location)).append(number);
    pattern.remove_prefix(location + kNumber.size());
  }
  return result.append(pattern);
}

std::vector<std::string> point_names(const std::string& prompt_encoder) {
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) {
    names.push_back(prompt_encoder + "point_embeddings." + std::to_string(i) + ".weight");
  }
  return names;
}

}  // namespace

std::string mapped_key(std::span<const KeyRow> rows, std::string_view name) {
  return map_key(rows, name).value_or(std::string(name));
}

std::optional<std::string> map_key(std::span<const KeyRow> rows, std::string_view name) {
  for (const KeyRow& row : rows) {
    std::vector<std::string_view> numbers;
    const std::optional<std::size_t> length = match(row.from, name, numbers);
    if (length) return fill(row.to, numbers).append(name.substr(*length));
  }
  return std::nullopt;
}

std::vector<KeyRow> reversed(std::span<const KeyRow> rows) {
  std::vector<KeyRow> result;
  for (const KeyRow& row : rows) result.push_back({row.to, row.from});
  return result;
}

bool matches_key(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> numbers;
  return match(pattern, name, numbers).has_value();
}

void split_points(StateDict& state_dict, const std::string& prompt_encoder) {
  state_dict.split(prompt_encoder + "point_embed.weight", point_names(prompt_encoder));
}

void join_points(StateDict& state_dict, const std::string& prompt_encoder) {
  state_dict.join({{point_names(prompt_encoder), prompt_encoder + "point_embed.weight"}});
}

void respell(StateDict& state_dict, std::span<const KeyRow> rows) {
  std::vector<std::string> names;
  bool changed = false;
  for (const TensorEntry& entry : state_dict.tensors()) {
    std::string name = mapped_key(rows, entry.name);
    if (name != entry.name && state_dict.contains(name)) name = entry.name;
    changed = changed || name != entry.name;
    names.push_back(std::move(name));
  }
  if (changed) state_dict.rename(names);
}

void rename_from_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    if (entry.name == kEncodingCopy) {
      names.push_back(state_dict.contains(kEncodingName) ? "" : *map_key(rows, kEncodingName));
    } else {
      names.push_back(map_key(rows, entry.name).value_or(entry.name));
    }
  }
  state_dict.rename(names);
}

void copy_encoding(StateDict& state_dict, const std::string& prefix) {
  const TensorEntry* const encoding = state_dict.find(prefix + std::string(kEncodingName));
  if (encoding == nullptr) return;
  TensorEntry copy = *encoding;
  copy.name = prefix + std::string(kEncodingCopy);
  state_dict.add(std::move(copy));
}

void rename_to_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows) {
  const std::vector<KeyRow> back = reversed(rows);
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    names.push_back(mapped_key(back, entry.name));
  }
  state_dict.rename(names);
  copy_encoding(state_dict, "");
}

}  // namespace sam_rlx
