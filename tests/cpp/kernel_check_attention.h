// Checks of the kernels of attention: parts of kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel_check.h"
#include "kernel_check_products.h"
#include "ops/operands.h"

namespace {

// One softmax over all keys, for columns that are queries, and its product with values.
struct Attention {
  std::int64_t keys, columns, dim, value_dim;
  std::int64_t map_width;  // of the terms of position; 0 for none
  // Scores (keys, columns), or keys (keys, dim) and queries (columns, dim) that make them.
  Floats scores, key, query;
  Floats value;         // (keys, value_dim)
  Floats rel_h, rel_w;  // (keys, columns) each: more rows than the map has

  Attention(Case& test, std::int64_t keys_, std::int64_t columns_, std::int64_t dim_,
            std::int64_t value_dim_, std::int64_t map_width_)
      : keys(keys_),
        columns(columns_),
        dim(dim_),
        value_dim(value_dim_),
        map_width(map_width_),
        scores(test.floats(dim == 0 ? keys * columns : 0)),
        key(test.floats(keys * dim)),
        query(test.floats(columns * dim)),
        value(test.floats(keys * value_dim)),
        rel_h(test.floats(keys * columns)),
        rel_w(test.floats((keys + map_width) * columns)) {}

  static constexpr float kScale = 1.5F;

  // Base 2; scores that are made of keys and queries are not scaled: the queries are.
  Number score(std::int64_t j, std::int64_t c) const {
    const Number scale = exact(static_cast<double>(kScale));
    Number y;
    if (dim == 0) {
      y = scale * exact(at(scores, columns, j, c));
    } else {
      y = scale * sum_of_products(dim, [&](std::int64_t d) {
            return at(key, dim, j, d) * at(query, dim, c, d);
          });
    }
    if (map_width == 0) return y;
    return sum({y, exact(at(rel_h, columns, j / map_width, c)),
                exact(at(rel_w, columns, j % map_width, c))});
  }

  // (columns, value_dim). The largest score takes part in what is rounded, but leaves no other
  // trace: all weights are divided by the same power. Keys come in two steps, so weights are
  // shrunk once. Those that are multiplied with values may be rounded, relative to their size.
  Numbers truth(double rounding = 0.0) const {
    Numbers out;
    for (std::int64_t c = 0; c < columns; ++c) {
      Numbers y;
      for (std::int64_t j = 0; j < keys; ++j) y.push_back(score(j, c));
      const auto less = [](const Number& a, const Number& b) { return a.value < b.value; };
      const auto [low, high] = std::minmax_element(y.begin(), y.end(), less);
      const Number largest = exact(high->value), last = exp2(*low - largest);
      const Number shrink{1.0, last.error / last.value};
      for (Number& x : y) x = exp2(x - largest) * shrink;
      const Number inverse = exact(1.0) / sum(y);
      for (std::int64_t d = 0; d < value_dim; ++d) {
        Numbers terms;
        for (std::int64_t j = 0; j < keys; ++j) {
          const Number weight = y[static_cast<std::size_t>(j)] * Number{1.0, rounding};
          terms.push_back(weight * exact(at(value, value_dim, j, d)));
        }
        out.push_back(sum(terms) * inverse);
      }
    }
    return out;
  }
};

// The same in steps of a table's kernels. Fewer columns than a panel has: as many vectors as they
// need, unless the panel is taken whole.
class AttentionSteps {
 public:
  AttentionSteps(const sam_rlx::KernelTable& table, const Attention& x, bool whole)
      : table_(table), x_(x), whole_(whole) {}

  // softmax_columns, and a loop for the values.
  Floats softmax() {
    const std::int64_t nr = table_.gemm_nr;
    return run(1, true, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
      table_.softmax_columns(s);
      add_values(s, [&](std::int64_t j, std::int64_t c) { return s.scores[j * nr + c]; });
    });
  }

  // softmax_bfloat16, and a loop for the values. Weights of no key count as values of 1.
  Floats softmax_bfloat16() {
    constexpr std::int64_t kDepth = sam_rlx::kBFloat16Depth;
    const std::int64_t nr = table_.gemm_nr;
    const sam_rlx::PanelShape shape = sam_rlx::right_shape(table_, table_.bfloat16_panels);
    return run(1, true, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
      const std::int64_t depth = (s.keys + kDepth - 1) / kDepth * kDepth;
      std::vector<std::uint16_t> weights(static_cast<std::size_t>(depth * nr), 0x3F80);
      table_.softmax_bfloat16(s, weights.data());
      const auto weight = [&](std::int64_t j, std::int64_t c) {
        const std::int64_t position = sam_rlx::panel_position(shape, depth, c, j);
        return float_of(weights[static_cast<std::size_t>(position)]);
      };
      add_values(s, weight);
      for (std::int64_t j = s.keys; j < depth; ++j) {
        for (std::int64_t i = 0; i < x_.value_dim * s.columns; ++i) {
          s.result[i / s.columns * nr + i % s.columns] += weight(j, i % s.columns);
        }
      }
    });
  }

  // attend_columns of given scores, or of keys and queries.
  Floats attend() {
    const std::int64_t mr = table_.gemm_mr;
    Floats transposed;
    for (std::int64_t d = 0; d < x_.value_dim; ++d) {
      for (std::int64_t j = 0; j < x_.keys; ++j) {
        transposed.push_back(x_.value[static_cast<std::size_t>(j * x_.value_dim + d)]);
      }
    }
    const Floats values = packed_rows(transposed, x_.keys, mr, table_.pack_a_rows);
    Floats keys, queries;
    if (x_.dim > 0) {
      keys = packed_rows(x_.key, x_.dim, mr, table_.pack_a_rows);
      queries = packed_queries();
    }
    return run(mr, x_.dim == 0, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
      table_.attend_columns({s, x_.dim > 0 ? keys.data() + s.first_key * x_.dim : nullptr,
                             queries.data(), x_.dim, values.data() + s.first_key * mr,
                             mr * x_.keys});
    });
  }

  // The same with keys, and with values behind them, that are rows of a matrix.
  Floats attend_rows() {
    const std::int64_t stride = x_.dim + x_.value_dim + 3;
    Floats rows;
    for (std::int64_t j = 0; j < x_.keys; ++j) {
      const auto key = x_.key.begin() + j * x_.dim;
      const auto value = x_.value.begin() + j * x_.value_dim;
      rows.insert(rows.end(), key, key + x_.dim);
      rows.insert(rows.end(), value, value + x_.value_dim);
      rows.insert(rows.end(), 3, 99.0F);
    }
    const Floats queries = packed_queries();
    return run(1, false, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
      const float* const first = rows.data() + s.first_key * stride;
      table_.attend_columns({s, first, queries.data(), x_.dim, first + x_.dim, 0, stride});
    });
  }

  Floats packed_queries() const {
    return packed_rows(x_.query, x_.dim, table_.gemm_nr, [&](auto rows, auto k, float* out) {
      table_.pack_b_rows(rows, k, Attention::kScale, out);
    });
  }

  // The first step takes half of the keys, rounded up to whole panels: packed keys begin at one.
  template <class Step>
  Floats run(std::int64_t panel, bool given, Step step) {
    const std::int64_t nr = table_.gemm_nr, keys = x_.keys;
    Floats tile = given ? given_scores() : Floats(static_cast<std::size_t>(keys * nr), 0.0F);
    const Floats rel_h = in_panel(x_.rel_h), rel_w = in_panel(x_.rel_w);
    Floats max(static_cast<std::size_t>(nr), -std::numeric_limits<float>::infinity());
    Floats sum(static_cast<std::size_t>(nr), 0.0F);
    Floats result(static_cast<std::size_t>(x_.value_dim * nr), 0.0F);
    sam_rlx::SoftmaxColumnsArgs s;
    s.columns = whole_ ? nr : (x_.columns + table_.lanes - 1) / table_.lanes * table_.lanes;
    s.scale = Attention::kScale;
    if (x_.map_width > 0) {
      s.rel_h = rel_h.data();
      s.rel_w = rel_w.data();
      s.rel_width = x_.map_width;
    }
    s.running_max = max.data();
    s.running_sum = sum.data();
    s.result = result.data();
    s.value_dim = x_.value_dim;
    const std::int64_t half = ((keys + 1) / 2 + panel - 1) / panel * panel;
    for (s.first_key = 0; s.first_key < keys; s.first_key += half) {
      s.keys = std::min(half, keys - s.first_key);
      s.scores = tile.data() + s.first_key * nr;
      step(s);
    }
    Floats out(static_cast<std::size_t>(x_.columns * x_.value_dim));
    std::vector<float*> rows;
    for (std::int64_t i = 0; i < x_.columns; ++i) rows.push_back(out.data() + i * x_.value_dim);
    table_.unpack_columns(result.data(), sum.data(), x_.columns, x_.value_dim, rows.data());
    return out;
  }

 private:
  // Adds values times weight(key of the step, column) to the result.
  template <class Weight>
  void add_values(const sam_rlx::SoftmaxColumnsArgs& s, Weight weight) const {
    const std::int64_t nr = table_.gemm_nr;
    for (std::int64_t j = 0; j < s.keys; ++j) {
      for (std::int64_t d = 0; d < x_.value_dim; ++d) {
        for (std::int64_t c = 0; c < s.columns; ++c) {
          s.result[d * nr + c] += at(x_.value, x_.value_dim, s.first_key + j, d) * weight(j, c);
        }
      }
    }
  }

  // Rows of `columns` as rows of a panel.
  Floats in_panel(const Floats& x) const {
    const std::int64_t nr = table_.gemm_nr, columns = x_.columns;
    Floats panel(x.size() / static_cast<std::size_t>(columns) * static_cast<std::size_t>(nr));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      panel[static_cast<std::size_t>(index / columns * nr + index % columns)] = x[i];
    }
    return panel;
  }

  // As softmax_columns takes them: scaled there, and unscaled here.
  Floats given_scores() const {
    Floats scores = x_.scores;
    for (std::int64_t i = 0; x_.dim > 0 && i < x_.keys * x_.columns; ++i) {
      const float* const key = x_.key.data() + i / x_.columns * x_.dim;
      const float* const query = x_.query.data() + i % x_.columns * x_.dim;
      double score = 0.0;
      for (std::int64_t d = 0; d < x_.dim; ++d) {
        score += static_cast<double>(key[d]) * static_cast<double>(query[d]);
      }
      scores.push_back(static_cast<float>(score));
    }
    return in_panel(scores);
  }

  const sam_rlx::KernelTable& table_;
  const Attention& x_;
  bool whole_;
};

// Columns that fill less than a vector or a whole panel; maps 3 wide end within a tile of keys,
// those 16 wide do not.
void check_softmax(const sam_rlx::KernelTable& table) {
  const auto check = [&](Case& test, const Attention& x) {
    const Numbers truth = x.truth(), rounded = x.truth(1.0 / 256.0);
    for (const bool whole : {false, true}) {
      AttentionSteps steps(table, x, whole);
      test.expect("softmax_columns", truth, steps.softmax());
      test.expect("softmax_bfloat16", rounded, steps.softmax_bfloat16());
      test.expect("attend_columns", truth, steps.attend());
      if (x.map_width > 0 || x.dim == 0) continue;
      test.expect("attend_columns: rows", truth, steps.attend_rows());
    }
  };
  for (const std::int64_t keys : {1, 2, 9, 50}) {
    for (const std::int64_t dim : {0, 1, 7, 64}) {
      for (const std::int64_t value_dim : {1, 6, 15, 32}) {
        for (const std::int64_t columns : {3, table.gemm_nr}) {
          for (const std::int64_t map_width : {0, 3, 16}) {
            Case test("attention", {keys, dim, value_dim, columns, map_width});
            check(test, Attention(test, keys, columns, dim, value_dim, map_width));
          }
        }
      }
    }
  }
}

}  // namespace
