#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/text.h"
#include "core/error.h"
#include "layers/release.h"

namespace sam_rlx {

// The row of a variant; UnsupportedError lists those that there are.
template <class Row>
const Row& release_named(std::span<const Row> rows, std::string_view variant) {
  std::vector<std::string_view> known;
  for (const Row& row : rows) {
    if (row.variant == variant) return row;
    known.push_back(row.variant);
  }
  fail<UnsupportedError>("variant", alternatives(known), printable(variant));
}

}  // namespace sam_rlx
