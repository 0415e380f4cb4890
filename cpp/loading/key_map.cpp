#include "loading/key_map.h"

#include <algorithm>
#include <array>
#include <vector>

namespace sam_rlx {
namespace {

constexpr std::string_view kNumber = "{i}";

constexpr std::array<std::string_view, 4> kWrappers{"module.", "_orig_mod.", "model.", "sam."};

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

bool matches_key(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> numbers;
  return match(pattern, name, numbers).has_value();
}

void strip_common_prefixes(StateDict& state_dict) {
  const auto strip = [&](std::string_view prefix) {
    const auto& tensors = state_dict.tensors();
    const bool common =
        !tensors.empty() &&
        std::all_of(tensors.begin(), tensors.end(), [&](const TensorEntry& entry) {
          return entry.name.size() > prefix.size() && entry.name.starts_with(prefix);
        });
    if (!common) return false;
    std::vector<std::string> names;
    for (const TensorEntry& entry : tensors) names.push_back(entry.name.substr(prefix.size()));
    state_dict.rename(names);
    return true;
  };
  constexpr int kMaxWrappers = 8;
  for (int i = 0; i < kMaxWrappers; ++i) {
    if (!std::any_of(kWrappers.begin(), kWrappers.end(), strip)) return;
  }
}

void split_points(StateDict& state_dict, const std::string& prompt_encoder) {
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) {
    names.push_back(prompt_encoder + "point_embeddings." + std::to_string(i) + ".weight");
  }
  state_dict.split(prompt_encoder + "point_embed.weight", names);
}

void restore_gamma(StateDict& state_dict, std::string_view memory_encoder) {
  const std::string pattern = std::string(memory_encoder) + "fuser.layers.{i}.";
  const std::string renamed = pattern + "weight", original = pattern + "gamma";
  const KeyRow row{renamed, original};
  const auto& tensors = state_dict.tensors();
  if (std::none_of(tensors.begin(), tensors.end(),
                   [&](const TensorEntry& entry) { return matches_key(renamed, entry.name); })) {
    return;
  }
  std::vector<std::string> names;
  for (const TensorEntry& entry : tensors) names.push_back(mapped_key({&row, 1}, entry.name));
  state_dict.rename(names);
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

}  // namespace sam_rlx
