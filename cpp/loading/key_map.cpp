#include "loading/key_map.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "core/error.h"

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

void drop_copy(StateDict& state_dict, const std::string& copy, const std::string& original) {
  const TensorEntry* const second = state_dict.find(copy);
  const TensorEntry* const first = state_dict.find(original);
  if (second == nullptr || first == nullptr) return;
  const auto numbers = [&](const TensorEntry& entry) {
    std::vector<float> values(static_cast<std::size_t>(entry.numel()));
    copy_as_float(state_dict, entry, values.data());
    return values;
  };
  if (first->dims != second->dims || numbers(*first) != numbers(*second)) {
    fail<UnsupportedError>(state_dict.source + ": " + copy,
                           "the numbers of " + original + ", as clicks and image share them",
                           "others; a model of transformers 5 that was trained from a config has "
                           "two position matrices, of which no other program knows");
  }
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) {
    names.push_back(entry.name == copy ? "" : entry.name);
  }
  state_dict.rename(names);
}

namespace {

constexpr std::string_view kFirstLayer = ".proj_in.", kLastLayer = ".proj_out.",
                           kHiddenLayers = ".layers.";

// A name of a head in transformers' form: what stands before the layer, its number by Meta's count
// (-1: the last one), and the rest. None for other names.
struct HeadLayer {
  std::string base;
  std::int64_t number = 0;
  std::string rest;
};

std::optional<HeadLayer> outer_layer(std::string_view name) {
  for (const std::string_view part : {kFirstLayer, kLastLayer}) {
    const std::size_t at = name.find(part);
    if (at == std::string_view::npos) continue;
    return HeadLayer{std::string(name.substr(0, at)), part == kFirstLayer ? 0 : -1,
                     std::string(name.substr(at + part.size()))};
  }
  return std::nullopt;
}

// The same for a name with a number between base and rest.
std::optional<HeadLayer> counted_layer(std::string_view name) {
  const std::size_t at = name.rfind(kHiddenLayers);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view tail = name.substr(at + kHiddenLayers.size());
  const std::size_t dot = tail.find('.');
  constexpr std::size_t kMaxDigits = 4;
  if (dot == std::string_view::npos || dot == 0 || dot > kMaxDigits ||
      !std::all_of(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(dot), is_digit)) {
    return std::nullopt;
  }
  return HeadLayer{std::string(name.substr(0, at)), std::stoll(std::string(tail.substr(0, dot))),
                   std::string(tail.substr(dot + 1))};
}

std::string layer_name(const HeadLayer& layer) {
  return layer.base + std::string(kHiddenLayers) + std::to_string(layer.number) + "." + layer.rest;
}

bool has_outer_layers(const StateDict& state_dict, const std::string& base) {
  return state_dict.contains(base + std::string(kFirstLayer) + "weight");
}

std::int64_t count_layers(const StateDict& state_dict, const std::string& base) {
  HeadLayer layer{base, 0, "weight"};
  while (state_dict.contains(layer_name(layer))) ++layer.number;
  return layer.number;
}

// The modules that transformers writes with proj_in and proj_out.
bool is_head(std::string_view base) {
  while (!base.empty() && (is_digit(base.back()) || base.back() == '.')) base.remove_suffix(1);
  constexpr std::string_view kHeads[] = {"iou_prediction_head", "output_hypernetworks_mlps",
                                         "pred_obj_score_head", "object_pointer_proj",
                                         "hq_mask_mlp",         ".mlp"};
  return std::any_of(std::begin(kHeads), std::end(kHeads),
                     [&](std::string_view head) { return base.ends_with(head); });
}

template <class Name>
void rename_each(StateDict& state_dict, const Name& new_name) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : state_dict.tensors()) names.push_back(new_name(entry.name));
  state_dict.rename(names);
}

}  // namespace

void number_layers(StateDict& state_dict) {
  rename_each(state_dict, [&](const std::string& name) {
    if (std::optional<HeadLayer> layer = outer_layer(name)) {
      if (layer->number < 0) layer->number = 1 + count_layers(state_dict, layer->base);
      return layer_name(*layer);
    }
    std::optional<HeadLayer> layer = counted_layer(name);
    if (!layer || !has_outer_layers(state_dict, layer->base)) return name;
    ++layer->number;
    return layer_name(*layer);
  });
}

void unnumber_layers(StateDict& state_dict) {
  rename_each(state_dict, [&](const std::string& name) {
    std::optional<HeadLayer> layer = counted_layer(name);
    if (!layer || !is_head(layer->base)) return name;
    const std::int64_t last = count_layers(state_dict, layer->base) - 1;
    if (layer->number == 0) return layer->base + std::string(kFirstLayer) + layer->rest;
    if (layer->number == last) return layer->base + std::string(kLastLayer) + layer->rest;
    --layer->number;
    return layer_name(*layer);
  });
}

std::string numbered_layer(std::string_view name) {
  if (std::optional<HeadLayer> layer = outer_layer(name)) {
    if (layer->number < 0) layer->number = layer->base.ends_with(".mlp") ? 1 : 2;
    return layer_name(*layer);
  }
  std::optional<HeadLayer> layer = counted_layer(name);
  if (!layer || !is_head(layer->base)) return std::string(name);
  ++layer->number;
  return layer_name(*layer);
}

void rename_from_hugging_face(StateDict& state_dict, std::span<const KeyRow> rows) {
  drop_copy(state_dict, std::string(kEncodingCopy), std::string(kEncodingName));
  number_layers(state_dict);
  rename_each(state_dict, [&](const std::string& name) {
    return mapped_key(rows, name == kEncodingCopy ? kEncodingName : std::string_view(name));
  });
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
  unnumber_layers(state_dict);
  copy_encoding(state_dict, "");
}

}  // namespace sam_rlx
