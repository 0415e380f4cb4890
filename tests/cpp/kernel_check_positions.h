// Checks of scores of keys that lie on positions: a part of kernel_check.cpp.

#pragma once

#include <cstdint>

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
