// Checks of scores of keys that lie on positions: a part of kernel_check.cpp.

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernel_check.h"
#include "kernel_check_rows.h"

namespace {

// Pairs of channels of `columns` queries (2 * pairs, columns): even rows, then odd ones.
struct PairsOfChannels {
  std::int64_t depth, pairs, columns;
  Floats weight, query;

  Floats found(const sam_rlx::KernelTable& t) const {
    const std::int64_t nr = t.gemm_nr, rows = depth * pairs;
    Floats out(static_cast<std::size_t>(2 * rows * columns));
    for (std::int64_t first = 0; first < columns; first += nr) {
      const Floats panel = panel_of(query, columns, first, nr);
      Floats products(static_cast<std::size_t>(2 * rows * nr));
      t.pair_products({weight.data(), panel.data(), products.data(), products.data() + rows * nr,
                       depth, pairs});
      put_panel(products, columns, first, nr, out);
    }
    return out;
  }

  Numbers truth() const {
    const std::int64_t half = depth * pairs * columns;
    Numbers out(static_cast<std::size_t>(2 * half));
    for (std::int64_t i = 0; i < half; ++i) {
      const std::int64_t c = i % columns, j = i / columns % pairs, k = i / columns / pairs;
      const Number re = exact(at(weight, pairs, 2 * k, j));
      const Number im = exact(at(weight, pairs, 2 * k + 1, j));
      const Number q_re = exact(at(query, columns, j, c));
      const Number q_im = exact(at(query, columns, pairs + j, c));
      out[static_cast<std::size_t>(i)] = re * q_re + im * q_im;
      out[static_cast<std::size_t>(half + i)] = re * q_im - im * q_re;
    }
    return out;
  }
};

// Scores (positions * maps, columns) of `columns` queries.
struct Positions {
  std::int64_t positions, depth, maps, columns;
  Floats keys, column, row;

  Floats found(const sam_rlx::KernelTable& t) const {
    const std::int64_t nr = t.gemm_nr;
    Floats out(static_cast<std::size_t>(positions * maps * columns));
    Floats sum(static_cast<std::size_t>(depth * nr));
    for (std::int64_t first = 0; first < columns; first += nr) {
      const Floats of_columns = panel_of(column, columns, first, nr);
      const Floats of_row = panel_of(row, columns, first, nr);
      Floats scores(static_cast<std::size_t>(positions * maps * nr));
      t.position_scores({keys.data(), of_columns.data(), of_row.data(), sum.data(), scores.data(),
                         positions, depth, maps});
      put_panel(scores, columns, first, nr, out);
    }
    return out;
  }

  Numbers truth() const {
    Numbers out;
    for (std::int64_t i = 0; i < positions * maps * columns; ++i) {
      const std::int64_t c = i % columns, map = i / columns % maps, x = i / columns / maps;
      Numbers terms;
      for (std::int64_t k = 0; k < depth; ++k) {
        const Number both =
            exact(at(column, columns, x * depth + k, c)) + exact(at(row, columns, k, c));
        terms.push_back(exact(at(keys, maps, x * depth + k, map)) * both);
      }
      out.push_back(sum(terms));
    }
    return out;
  }
};

// The same of integers, rows of floats that are whole numbers, with a scale for each key and query.
struct IntegerPositions {
  Positions x;
  Floats key_scale, query_scale;

  // Words of rows 2 i and 2 i + 1 of each run of `depth` rows.
  std::vector<std::int16_t> words(const Floats& rows, std::int64_t width) const {
    const std::int64_t runs = static_cast<std::int64_t>(rows.size()) / width / x.depth;
    const std::int64_t depth = (x.depth + 1) / 2 * 2;
    std::vector<std::int16_t> out(static_cast<std::size_t>(runs * depth * width));
    for (std::int64_t r = 0; r < runs * x.depth; ++r) {
      const std::int64_t to = r / x.depth * depth + r % x.depth;
      for (std::int64_t i = 0; i < width; ++i) {
        out[static_cast<std::size_t>((to / 2 * width + i) * 2 + to % 2)] =
            static_cast<std::int16_t>(rows[static_cast<std::size_t>(r * width + i)]);
      }
    }
    return out;
  }

  Floats found(const sam_rlx::KernelTable& t) const {
    const std::int64_t nr = t.gemm_nr, columns = x.columns;
    Floats out(static_cast<std::size_t>(x.positions * x.maps * columns));
    const auto keys = words(x.keys, x.maps);
    for (std::int64_t first = 0; first < columns; first += nr) {
      const auto of_columns = words(panel_of(x.column, columns, first, nr), nr);
      const auto of_row = words(panel_of(x.row, columns, first, nr), nr);
      const Floats scale = panel_of(query_scale, columns, first, nr);
      Floats scores(static_cast<std::size_t>(x.positions * x.maps * nr));
      t.position_scores_int16({keys.data(), key_scale.data(), of_columns.data(), of_row.data(),
                               scale.data(), scores.data(), x.positions, x.depth, x.maps});
      put_panel(scores, columns, first, nr, out);
    }
    return out;
  }

  // The sums are exact; they and two products are rounded.
  Numbers truth() const {
    Numbers out = x.truth();
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t columns = query_scale.size();
      const double scale = static_cast<double>(key_scale[i / columns]) *
                           static_cast<double>(query_scale[i % columns]);
      out[i].value *= scale;
      out[i].error = std::abs(out[i].value) * 3 * 0x1p-24;
    }
    return out;
  }
};

// With `whole`, all products of a sum are as large as they may be, and of one sign.
void check_integer_positions(const sam_rlx::KernelTable& table) {
  constexpr std::int64_t kColumns = 67, kPositions = 3;
  for (const std::int64_t depth : {1, 2, 7, 65}) {
    for (const std::int64_t maps : {1, 2, 7, 15, 29}) {
      for (const bool whole : {false, true}) {
        Case test("position_scores_int16", {depth, maps, whole});
        const auto limit = static_cast<float>(sam_rlx::int16_limit(depth));
        const auto integers = [&](std::int64_t count, float most) {
          Floats values = test.floats(count, most);
          for (float& v : values) v = whole ? -most : std::round(v);
          return values;
        };
        const float half = std::floor(limit / 2);
        const IntegerPositions x{
            {kPositions, depth, maps, kColumns, integers(kPositions * depth * maps, limit),
             integers(kPositions * depth * kColumns, half), integers(depth * kColumns, half)},
            test.floats(kPositions * maps),
            test.floats(kColumns)};
        test.expect("all", x.truth(), x.found(table));
      }
    }
  }
}

void check_positions(const sam_rlx::KernelTable& table) {
  constexpr std::int64_t kColumns = 67, kPositions = 3;
  for (const std::int64_t depth : {1, 7}) {
    for (const std::int64_t pairs : {1, 5}) {
      Case test("pair_products", {depth, pairs});
      const PairsOfChannels x{depth, pairs, kColumns, test.floats(depth * 2 * pairs),
                              test.floats(2 * pairs * kColumns)};
      test.expect("all", x.truth(), x.found(table));
    }
    for (const std::int64_t maps : {1, 2, 7, 15, 29}) {
      Case test("position_scores", {depth, maps});
      const Positions x{kPositions,
                        depth,
                        maps,
                        kColumns,
                        test.floats(kPositions * depth * maps),
                        test.floats(kPositions * depth * kColumns),
                        test.floats(depth * kColumns)};
      test.expect("all", x.truth(), x.found(table));
    }
  }
}

}  // namespace
