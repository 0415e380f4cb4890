#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/text.h"
#include "layers/fields.h"

namespace sam_rlx {

// Lists the numbers of a config, "embed_dim 96, stages (1, 2, 7, 2)", for a message.
struct SizesText {
  static constexpr bool kTold = false;
  std::string text;

  void operator()(const Field& field, std::int64_t value) { add(field, std::to_string(value)); }
  template <class List>
    requires std::same_as<typename List::value_type, std::int64_t>
  void operator()(const Field& field, const List& values) {
    constexpr std::size_t kMaxValues = 16;
    std::vector<std::int64_t> first(values.begin(),
                                    values.begin() + std::min(values.size(), kMaxValues));
    add(field, dims_text(first));
  }
  template <class Other>
  void operator()(const Field& /*field*/, const Other& /*value*/) {}

 private:
  void add(const Field& field, const std::string& value) {
    text.append(text.empty() ? "" : ", ").append(field.path).append(" ").append(value);
  }
};
template <class Config>
std::string sizes_text_of(Config config) {
  SizesText sizes;
  visit_fields(config, sizes);
  return sizes.text;
}

}  // namespace sam_rlx
