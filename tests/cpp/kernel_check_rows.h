// Checks of the kernels that are no products of matrices: parts of kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel_check.h"

namespace {

// The columns of x (rows, columns) from `first` on as a panel (rows, nr); the rest is zero.
Floats panel_of(const Floats& x, std::int64_t columns, std::int64_t first, std::int64_t nr) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / columns;
  Floats panel(static_cast<std::size_t>(rows * nr));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::copy_n(x.data() + r * columns + first, std::min(nr, columns - first),
                panel.data() + r * nr);
  }
  return panel;
}

// The way back.
void put_panel(const Floats& panel, std::int64_t columns, std::int64_t first, std::int64_t nr,
               Floats& x) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / columns;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::copy_n(panel.data() + r * nr, std::min(nr, columns - first),
                x.data() + r * columns + first);
  }
}

void check_widening(const sam_rlx::KernelTable& table, const Floats& x) {
  std::vector<std::uint16_t> bits(x.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, &x[i], sizeof(word));
    bits[i] = static_cast<std::uint16_t>(word >> 16);
  }
  const auto n = static_cast<std::int64_t>(x.size());
  Floats expected(bits.size()), found(bits.size());
  generic.widen_bfloat16(bits.data(), n, expected.data());
  table.widen_bfloat16(bits.data(), n, found.data());
  compare("widen_bfloat16, near", x, found, 0.01F);
  compare("widen_bfloat16", expected, found, 0.0F);
}

// The same bits everywhere, those of ties and of what is no finite number too.
void check_bfloat16(const sam_rlx::KernelTable& table) {
  for (const std::int64_t n : {1, 15, 16, 33, 256}) {
    Floats x = random_floats(static_cast<std::size_t>(n));
    check_widening(table, x);
    const float special[] = {1.00390625F,
                             1.01171875F,
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::max(),
                             1e-40F};
    std::copy_n(special, std::min<std::size_t>(std::size(special), x.size()), x.begin());
    std::vector<std::uint16_t> expected(x.size()), found(x.size());
    generic.round_bfloat16(x.data(), n, expected.data());
    table.round_bfloat16(x.data(), n, found.data());
    if (expected != found) fail("round_bfloat16: bits differ");
  }
}

void check_bfloat16_packing(const sam_rlx::KernelTable& table) {
  for (const std::int64_t k : {1, 2, 31, 32, 77}) {
    const Floats x = random_floats(static_cast<std::size_t>(k * table.gemm_nr));
    const std::int64_t depth =
        (k + sam_rlx::kBFloat16Depth - 1) / sam_rlx::kBFloat16Depth * sam_rlx::kBFloat16Depth;
    std::vector<std::uint16_t> rounded(x.size());
    generic.round_bfloat16(x.data(), static_cast<std::int64_t>(x.size()), rounded.data());
    std::vector<std::uint16_t> found(static_cast<std::size_t>(depth * table.gemm_nr), 1);
    std::vector<std::uint16_t> expected(found.size(), 0);
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < table.gemm_nr; ++j) {
        expected[static_cast<std::size_t>((p / 2 * table.gemm_nr + j) * 2 + p % 2)] =
            rounded[static_cast<std::size_t>(p * table.gemm_nr + j)];
      }
    }
    table.pack_bfloat16_rows(x.data(), k, found.data());
    if (expected != found) fail("pack_bfloat16_rows: bits differ");
  }
}

void check_rowwise(const sam_rlx::KernelTable& table) {
  for (const std::int64_t cols : {1, 5, 16, 67, 256}) {
    const auto size = static_cast<std::size_t>(3 * cols);
    const Floats x = random_floats(size);
    Floats expected = x, found = x;
    generic.gelu(expected.data(), 3 * cols);
    table.gelu(found.data(), 3 * cols);
    compare("gelu", expected, found, 1e-6F);
    expected = found = x;
    generic.softmax_rows(expected.data(), 3, cols, 0.7F);
    table.softmax_rows(found.data(), 3, cols, 0.7F);
    compare("softmax_rows", expected, found, 1e-6F);
    Floats transposed(size);
    table.transpose_block(x.data(), cols, 3, cols, transposed.data(), 3);
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < cols; ++j) {
        found[static_cast<std::size_t>(i * cols + j)] =
            transposed[static_cast<std::size_t>(j * 3 + i)];
      }
    }
    compare("transpose_block", x, found, 0.0F);
  }
}

void check_columns(const sam_rlx::KernelTable& table) {
  constexpr std::int64_t kRows = 7;
  for (const std::int64_t cols : {1, 5, 16, 67}) {
    const Floats x = random_floats(static_cast<std::size_t>(kRows * cols));
    const auto run_exp = [&](const sam_rlx::KernelTable& t) {
      Floats out = x;
      out.resize(static_cast<std::size_t>((kRows + 2) * cols));  // exponentials, largest, sums
      float* const largest = out.data() + kRows * cols;
      t.exp_columns(out.data(), kRows, cols, largest, largest + cols);
      return out;
    };
    compare("exp_columns", run_exp(generic), run_exp(table), 1e-6F);
    const auto run_groups = [&](const sam_rlx::KernelTable& t) {
      Floats out = x;
      t.softmax_groups(out.data(), 1, kRows, cols);
      return out;
    };
    compare("softmax_groups", run_groups(generic), run_groups(table), 1e-6F);
    const Floats weight = random_floats(kRows), bias = random_floats(kRows);
    const auto run_norm = [&](const sam_rlx::KernelTable& t) {
      Floats out = x;
      t.layer_norm_columns(out.data(), kRows, cols, weight.data(), bias.data(), 1e-6F);
      return out;
    };
    compare("layer_norm_columns", run_norm(generic), run_norm(table), 1e-5F);
  }
}

// Columns packed into panels of A, and rows into one of B, taken out again.
void check_packing(const sam_rlx::KernelTable& table) {
  const std::int64_t mr = table.gemm_mr, nr = table.gemm_nr;
  for (const std::int64_t k : {1, 5, 16, 67}) {
    for (const std::int64_t m : {1, 13, 45}) {
      const std::int64_t panels = (m + mr - 1) / mr, stride = k * mr + 3;
      const Floats x = random_floats(static_cast<std::size_t>(k * m));
      std::vector<const float*> columns;
      for (std::int64_t p = 0; p < k; ++p) columns.push_back(x.data() + p * m);
      Floats packed(static_cast<std::size_t>(panels * stride), 9.0F);
      table.pack_a_columns(columns.data(), k, m, packed.data(), stride);
      Floats expected(packed.size(), 9.0F);
      for (std::int64_t i = 0; i < panels; ++i) {
        const Floats panel = panel_of(x, m, i * mr, mr);
        std::copy(panel.begin(), panel.end(), expected.begin() + i * stride);
      }
      compare("pack_a_columns", expected, packed, 0.0F);
    }
    const std::int64_t count = nr - 1;  // the last row is missing
    const Floats x = random_floats(static_cast<std::size_t>(nr * k));
    std::vector<const float*> rows(static_cast<std::size_t>(nr), nullptr);
    Floats expected(static_cast<std::size_t>(nr * k)), packed(expected.size(), 9.0F);
    for (std::int64_t i = 0; i < count; ++i) {
      rows[static_cast<std::size_t>(i)] = x.data() + i * k;
      for (std::int64_t p = 0; p < k; ++p) {
        const float number = x[static_cast<std::size_t>(i * k + p)];
        expected[static_cast<std::size_t>(p * nr + i)] = 1.5F * number;
      }
    }
    table.pack_b_rows(rows.data(), k, 1.5F, packed.data());
    compare("pack_b_rows", expected, packed, 0.0F);
  }
}

void check_depthwise(const sam_rlx::KernelTable& table) {
  for (const std::int64_t size : {3, 7}) {
    for (const std::int64_t channels : {1, 5, 16, 67}) {
      for (const std::int64_t width : {1, 2, 11}) {
        const auto count = static_cast<std::size_t>(width * channels);
        const Floats x = random_floats(count * static_cast<std::size_t>(size));
        const Floats w = random_floats(static_cast<std::size_t>(size * size * channels));
        const Floats bias = random_floats(static_cast<std::size_t>(channels));
        std::vector<const float*> rows(static_cast<std::size_t>(size), nullptr);
        for (std::size_t i = 1; i < rows.size(); ++i) rows[i] = x.data() + i * count;
        const auto run = [&](const sam_rlx::KernelTable& t) {
          Floats out(count, -1.0F);
          t.depthwise_row({rows.data(), size, width, channels, w.data(), bias.data(), out.data()});
          return out;
        };
        compare_sums("depthwise_row", run(generic), run(table), size * size);
      }
    }
  }
}

// Of `columns` queries (2 * pairs, columns): even rows, then odd ones.
Floats run_pairs(const sam_rlx::KernelTable& t, const Floats& weight, const Floats& query,
                 std::int64_t pairs, std::int64_t columns) {
  const std::int64_t depth = static_cast<std::int64_t>(weight.size()) / (2 * pairs);
  const std::int64_t nr = t.gemm_nr;
  Floats out(static_cast<std::size_t>(2 * depth * pairs * columns));
  for (std::int64_t first = 0; first < columns; first += nr) {
    const Floats panel = panel_of(query, columns, first, nr);
    Floats found(static_cast<std::size_t>(2 * depth * pairs * nr));
    t.pair_products({weight.data(), panel.data(), found.data(), found.data() + depth * pairs * nr,
                     depth, pairs});
    put_panel(found, columns, first, nr, out);
  }
  return out;
}

// Of `columns` queries: scores (places * maps, columns).
struct Places {
  std::int64_t places, depth, maps, columns;
  Floats keys = random_floats(static_cast<std::size_t>(places * depth * maps));
  Floats column = random_floats(static_cast<std::size_t>(places * depth * columns));
  Floats row = random_floats(static_cast<std::size_t>(depth * columns));

  Floats scores(const sam_rlx::KernelTable& t) const {
    const std::int64_t nr = t.gemm_nr;
    Floats out(static_cast<std::size_t>(places * maps * columns));
    Floats sum(static_cast<std::size_t>(depth * nr));
    for (std::int64_t first = 0; first < columns; first += nr) {
      const Floats of_columns = panel_of(column, columns, first, nr);
      const Floats of_row = panel_of(row, columns, first, nr);
      Floats found(static_cast<std::size_t>(places * maps * nr));
      t.place_scores({keys.data(), of_columns.data(), of_row.data(), sum.data(), found.data(),
                      places, depth, maps});
      put_panel(found, columns, first, nr, out);
    }
    return out;
  }
};

void check_places(const sam_rlx::KernelTable& table) {
  constexpr std::int64_t kColumns = 67;
  for (const std::int64_t depth : {1, 7}) {
    for (const std::int64_t pairs : {1, 5}) {
      const Floats weight = random_floats(static_cast<std::size_t>(depth * 2 * pairs));
      const Floats query = random_floats(static_cast<std::size_t>(2 * pairs * kColumns));
      compare("pair_products", run_pairs(generic, weight, query, pairs, kColumns),
              run_pairs(table, weight, query, pairs, kColumns), 1e-6F);
    }
    for (const std::int64_t maps : {1, 2, 7, 15, 29}) {
      const Places places{3, depth, maps, kColumns};
      compare_sums("place_scores", places.scores(generic), places.scores(table), 2 * depth);
    }
  }
}

// The chains begin with 0, 1, 2, ... in every lane and come close to 1.
void check_chains(const sam_rlx::KernelTable& table) {
  const auto lanes = static_cast<float>(table.lanes);
  const float chains = table.multiply_add_chains(1 << 12) / lanes;
  const Floats found{chains, table.multiply_add_chains(0) / lanes};
  const float count = chains < 14.0F ? 12.0F : 16.0F;
  compare("multiply_add_chains", {count, count * (count - 1.0F) / 2.0F}, found, 1e-3F);
}

}  // namespace
