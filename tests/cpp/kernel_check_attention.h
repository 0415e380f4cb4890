// Checks of the kernels of attention: parts of kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernel_check.h"

namespace {

// What a softmax's scores are made of: they themselves (keys, columns), or keys (keys, dim) and
// queries (columns, dim).
struct Scores {
  std::int64_t keys = 0, columns = 0;
  Floats values = {};
  std::int64_t dim = 0;
  Floats key = {}, query = {};
};

// What belongs to one softmax over all keys, in two steps; terms: of a map 3 wide, or none. Fewer
// columns than a panel has: as many vectors as they need, unless the panel is taken whole.
class SoftmaxSteps {
 public:
  SoftmaxSteps(const sam_rlx::KernelTable& table, const Scores& x, std::int64_t value_dim)
      : table_(table), x_(x), value_dim_(value_dim) {}

  // weights^T (columns, keys) times values (keys, value_dim): softmax_columns and a loop.
  Floats softmax(bool terms, bool whole) {
    const std::int64_t nr = table_.gemm_nr;
    return run(terms, whole, 1, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
      table_.softmax_columns(s);
      for (std::int64_t j = 0; j < s.keys; ++j) {
        for (std::int64_t i = 0; i < value_dim_ * nr; ++i) {
          s.result[i] += value(s.first_key + j, i / nr) * s.scores[j * nr + i % nr];
        }
      }
    });
  }
  // The same with attend_columns: given scores, or keys and queries.
  Floats attend(bool terms, bool whole) {
    const std::int64_t mr = table_.gemm_mr;
    Floats transposed;
    for (std::int64_t d = 0; d < value_dim_; ++d) {
      for (std::int64_t j = 0; j < x_.keys; ++j) transposed.push_back(value(j, d));
    }
    const Floats values = packed_rows(transposed, x_.keys, mr, table_.pack_a_rows);
    Floats keys, queries;
    if (x_.dim > 0) {
      keys = packed_rows(x_.key, x_.dim, mr, table_.pack_a_rows);
      queries = packed_queries();
    }
    return run(terms, whole, mr, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
      table_.attend_columns({s, x_.dim > 0 ? keys.data() + s.first_key * x_.dim : nullptr,
                             queries.data(), x_.dim, values.data() + s.first_key * mr,
                             mr * x_.keys});
    });
  }
  // The same with keys, and with values behind them, that are rows of a matrix.
  Floats attend_rows(bool whole) {
    const std::int64_t stride = x_.dim + value_dim_ + 3;
    Floats rows;
    for (std::int64_t j = 0; j < x_.keys; ++j) {
      const auto key = x_.key.begin() + j * x_.dim;
      rows.insert(rows.end(), key, key + x_.dim);
      for (std::int64_t d = 0; d < value_dim_ + 3; ++d) rows.push_back(value(j, d));
    }
    const Floats queries = packed_queries();
    return run(false, whole, 1, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
      const float* const first = rows.data() + s.first_key * stride;
      table_.attend_columns({s, first, queries.data(), x_.dim, first + x_.dim, 0, stride});
    });
  }

 private:
  static constexpr float kScale = 1.5F;

  // Scores that are made of keys and queries are not scaled: the queries are.
  Floats packed_queries() const {
    return packed_rows(x_.query, x_.dim, table_.gemm_nr, [&](auto rows, auto k, float* out) {
      table_.pack_b_rows(rows, k, kScale, out);
    });
  }

  static float value(std::int64_t key, std::int64_t d) {
    return static_cast<float>((key * 7 + d * 3) % 11) - 4.0F;
  }

  float score(std::int64_t key, std::int64_t column) const {
    if (x_.dim == 0) return x_.values[static_cast<std::size_t>(key * x_.columns + column)];
    const float* const k = x_.key.data() + key * x_.dim;
    return std::inner_product(k, k + x_.dim, x_.query.data() + column * x_.dim, 0.0F);
  }

  // The first step takes half of the keys, rounded up to whole panels: packed keys begin at one.
  template <class Step>
  Floats run(bool terms, bool whole, std::int64_t panel, Step step) {
    const std::int64_t nr = table_.gemm_nr, keys = x_.keys;
    Floats tile(static_cast<std::size_t>(keys * nr), 0.0F);
    for (std::int64_t j = 0; j < keys; ++j) {
      for (std::int64_t c = 0; c < x_.columns; ++c) tile[j * nr + c] = score(j, c);
    }
    Floats rel(static_cast<std::size_t>(keys * nr));
    for (std::size_t i = 0; i < rel.size(); ++i) {
      rel[i] = 0.25F * static_cast<float>(static_cast<std::int64_t>(i) / nr % 5);
    }
    Floats max(static_cast<std::size_t>(nr), -std::numeric_limits<float>::infinity());
    Floats sum(static_cast<std::size_t>(nr), 0.0F);
    Floats result(static_cast<std::size_t>(value_dim_ * nr), 0.0F);
    sam_rlx::SoftmaxColumnsArgs s;
    s.columns = whole ? nr : (x_.columns + table_.lanes - 1) / table_.lanes * table_.lanes;
    s.scale = kScale;
    if (terms) s.rel_h = s.rel_w = rel.data();
    s.rel_width = 3;
    s.running_max = max.data();
    s.running_sum = sum.data();
    s.result = result.data();
    s.value_dim = value_dim_;
    const std::int64_t half = ((keys + 1) / 2 + panel - 1) / panel * panel;
    for (s.first_key = 0; s.first_key < keys; s.first_key += half) {
      s.keys = std::min(half, keys - s.first_key);
      s.scores = tile.data() + s.first_key * nr;
      step(s);
    }
    Floats out(static_cast<std::size_t>(x_.columns * value_dim_));
    std::vector<float*> rows;
    for (std::int64_t i = 0; i < x_.columns; ++i) rows.push_back(out.data() + i * value_dim_);
    table_.unpack_columns(result.data(), sum.data(), x_.columns, value_dim_, rows.data());
    return out;
  }

  const sam_rlx::KernelTable& table_;
  const Scores& x_;
  std::int64_t value_dim_;
};

void check_softmax(const sam_rlx::KernelTable& table) {
  const std::int64_t columns = std::min(table.gemm_nr, generic.gemm_nr);
  const auto both = [&](const Scores& x, std::int64_t value_dim) {
    for (const bool terms : {false, true}) {
      for (const bool whole : {false, true}) {
        const Floats expected = SoftmaxSteps(generic, x, value_dim).softmax(terms, whole);
        SoftmaxSteps steps(table, x, value_dim);
        compare("softmax_columns", expected, steps.softmax(terms, whole), 3e-6F);
        compare("attend_columns", expected, steps.attend(terms, whole), 3e-6F);
        if (terms || x.dim == 0) continue;
        compare("attend_columns: rows", expected, steps.attend_rows(whole), 3e-6F);
      }
    }
  };
  const auto numbers = [](std::int64_t count) {
    return random_floats(static_cast<std::size_t>(count));
  };
  for (const std::int64_t keys : {1, 2, 9, 50}) {
    for (const std::int64_t dim : {0, 1, 7, 64}) {
      Scores x{.keys = keys, .columns = columns, .dim = dim};
      if (dim == 0) x.values = numbers(keys * columns);
      x.key = numbers(keys * dim);
      x.query = numbers(columns * dim);
      for (const std::int64_t value_dim : {1, 6, 15, 32}) both(x, value_dim);
    }
  }
}

}  // namespace
