// Checks of products and attention in integers of 16 bits: parts of kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernel_check.h"
#include "kernel_check_attention.h"
#include "kernel_check_products.h"
#include "ops/operands.h"

namespace {

using Integers = std::vector<std::int16_t>;

// B given row by row, A by its rows and by its columns. In the end a NaN takes the scale of its own
// row or column alone.
void check_int16_packing(const sam_rlx::KernelTable& table) {
  constexpr float kLimit = 5000.0F;
  const std::int64_t nr = table.gemm_nr, mr = table.gemm_mr;
  for (const std::int64_t k : {1, 2, 31, 64, 133}) {
    for (const std::int64_t m : {1, 8, 13, 70, 230}) {
      Case test("packing of 16 bits", {k, m, nr});
      Floats x = test.floats(k * std::max(m, nr));
      const std::int64_t depth = (k + 1) / 2 * 2;
      Floats scale(static_cast<std::size_t>((std::max(m, nr) + mr) / mr * mr));
      const auto expect = [&](const char* what, std::int64_t width, std::int64_t count,
                              const Integers& found, auto number) {
        for (std::int64_t i = 0; i < count; ++i) {
          float largest = 0.0F;
          for (std::int64_t p = 0; p < k; ++p) largest = std::max(largest, std::abs(number(i, p)));
          const float step = scale[static_cast<std::size_t>(i)];
          if (step != largest / kLimit) return test.fail(what);
          for (std::int64_t p = 0; p < depth; ++p) {
            const std::int64_t at =
                sam_rlx::panel_position({static_cast<std::int32_t>(width), 2}, depth, i, p);
            const float integer = found[static_cast<std::size_t>(at)];
            const float expected = p < k ? number(i, p) : 0.0F;
            const bool near = std::abs(integer * step - expected) <= 0.501F * step;
            if (!near || std::abs(integer) > kLimit) return test.fail(what);
          }
        }
      };
      const auto at_row = [&](std::int64_t row, std::int64_t columns, std::int64_t column) {
        return x[static_cast<std::size_t>(row * columns + column)];
      };
      Integers b(static_cast<std::size_t>(depth * nr), 1);
      table.pack_int16_rows(x.data(), k, kLimit, b.data(), scale.data());
      expect("pack_int16_rows", nr, nr, b,
             [&](std::int64_t j, std::int64_t p) { return at_row(p, nr, j); });
      Integers a(static_cast<std::size_t>((m + mr - 1) / mr * mr * depth), 1);
      table.pack_int16_left(rows_of(x, m, k).data(), m, k, kLimit, a.data(), scale.data());
      expect("pack_int16_left", mr, m, a,
             [&](std::int64_t i, std::int64_t p) { return at_row(i, k, p); });
      std::fill(a.begin(), a.end(), std::int16_t{1});
      const auto pack_columns = [&] {
        table.pack_int16_left_columns(rows_of(x, k, m).data(), k, m, kLimit, a.data(),
                                      scale.data());
      };
      pack_columns();
      expect("pack_int16_left_columns", mr, m, a,
             [&](std::int64_t i, std::int64_t p) { return at_row(p, m, i); });
      x[0] = std::numeric_limits<float>::quiet_NaN();
      pack_columns();
      for (std::int64_t i = 0; i < m; ++i) {
        if (std::isnan(scale[static_cast<std::size_t>(i)]) != (i == 0)) test.fail("scale of NaN");
      }
    }
  }
}

// The numbers (rows, k) for which the integers of panels of `width` stand.
Floats from_int16(const Integers& panels, const Floats& scale, std::int64_t width,
                  std::int64_t rows, std::int64_t k) {
  const sam_rlx::PanelShape shape{static_cast<std::int32_t>(width), 2};
  Floats out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t p = 0; p < k; ++p) {
      const std::int64_t at = sam_rlx::panel_position(shape, (k + 1) / 2 * 2, i, p);
      out.push_back(panels[static_cast<std::size_t>(at)] * scale[static_cast<std::size_t>(i)]);
    }
  }
  return out;
}

// A weight as pack_int16_weight leaves it: each number is within half a step of its own, a step is
// as small as it may be, and the products of a block fit 32 bits.
void check_int16_weight(const Case& test, const Product& product, const Integers& panels,
                        const Floats& scale, std::int64_t nr) {
  const std::int64_t k = product.k;
  const Floats found = from_int16(panels, scale, nr, product.n, k);
  for (std::int64_t j = 0; j < product.n; ++j) {
    const double step = scale[static_cast<std::size_t>(j)];
    double most = 0.0, block = 0.0, largest_block = 0.0, rounded_block = 0.0;
    for (std::int64_t p = 0; p < k; ++p) {
      if (p % sam_rlx::kInt16Depth == 0) block = rounded_block = 0.0;
      const double number = at(product.w, k, j, p), integer = at(found, k, j, p);
      if (std::abs(integer - number) > 0.51 * step) return test.fail("pack_int16_weight");
      most = std::max(most, std::abs(number));
      largest_block = std::max(largest_block, block += std::abs(number));
      rounded_block += std::abs(integer);
      const double limit = static_cast<double>(0x7FFFFFFF / sam_rlx::kInt16Left) * step;
      if (rounded_block > limit * (1.0 + 1e-6)) return test.fail("sums of pack_int16_weight");
    }
    const double needed = std::max(most / 32767.0, largest_block / sam_rlx::kInt16Sum);
    if (std::abs(step - needed) > 1e-6 * needed) test.fail("scale of pack_int16_weight");
  }
}

// With `whole`, all products of a block are as large as they may be, and of one sign.
void check_int16_gemm(const sam_rlx::KernelTable& table) {
  const std::int64_t mr = table.gemm_mr, nr = table.gemm_nr;
  const auto up = [](std::int64_t count, std::int64_t by) {
    return static_cast<std::size_t>((count + by - 1) / by * by);
  };
  for (const std::int64_t m : {1, 5, 14, 45}) {
    for (const std::int64_t n : {1, 15, 33}) {
      for (const std::int64_t k : {1, 2, 33, 64, 255, 257, 700}) {
        for (const bool whole : {false, true}) {
          Case test("int16_gemm", {m, n, k, whole});
          Product product(test, m, n, k);
          if (whole) {
            std::fill(product.a.begin(), product.a.end(), 1.0F);
            std::fill(product.w.begin(), product.w.end(), -1.0F);
          }
          const auto depth = static_cast<std::size_t>((k + 1) / 2 * 2);
          Integers a(up(m, mr) * depth), w(up(n, nr) * depth, 1);
          Floats a_scale(up(m, mr)), w_scale(up(n, nr), 1.0F);
          table.pack_int16_left(rows_of(product.a, m, k).data(), m, k, sam_rlx::kInt16Left,
                                a.data(), a_scale.data());
          table.pack_int16_weight(product.w.data(), n, k, w.data(), w_scale.data());
          check_int16_weight(test, product, w, w_scale, nr);
          Floats c(static_cast<std::size_t>(m * n), -1.0F);
          sam_rlx::Int16GemmArgs g{product.target(), a.data(), a_scale.data(),
                                   w.data(),         k,        w_scale.data()};
          g.target.c = c.data();
          table.int16_gemm(g);
          test.expect(
              "int16_gemm",
              truth_of(product, from_int16(a, a_scale, mr, m, k), from_int16(w, w_scale, nr, n, k)),
              c);
        }
      }
    }
  }
}

// Attention in two steps, whose keys, queries and values a table packs and multiplies.
Floats attend_int16(const sam_rlx::KernelTable& table, const Attention& x, bool whole) {
  const std::int64_t mr = table.gemm_mr, words = (x.dim + 1) / 2;
  const auto limit = static_cast<float>(sam_rlx::int16_limit(x.dim));
  const auto up = [&](std::int64_t count) {
    return static_cast<std::size_t>((count + mr - 1) / mr * mr);
  };
  Integers keys(up(x.keys) * static_cast<std::size_t>(2 * words));
  Floats key_scale(up(x.keys));
  table.pack_int16_left(rows_of(x.key, x.keys, x.dim).data(), x.keys, x.dim, limit, keys.data(),
                        key_scale.data());
  AttentionSteps steps(table, x, whole);
  const Floats packed = steps.packed_queries();
  Integers queries(static_cast<std::size_t>(2 * words * table.gemm_nr));
  Floats query_scale(static_cast<std::size_t>(table.gemm_nr));
  table.pack_int16_rows(packed.data(), x.dim, limit, queries.data(), query_scale.data());
  return steps.run(std::lcm(mr, 2), false, [&](const sam_rlx::SoftmaxColumnsArgs& s) {
    Integers values(up(x.value_dim) * static_cast<std::size_t>((s.keys + 1) / 2 * 2));
    Floats value_scale(up(x.value_dim));
    const auto rows = rows_of(x.value, x.keys, x.value_dim);
    table.pack_int16_left_columns(rows.data() + s.first_key, s.keys, x.value_dim,
                                  float{sam_rlx::kInt16Value}, values.data(), value_scale.data());
    table.attend_int16({s, keys.data() + s.first_key * words * 2, key_scale.data() + s.first_key,
                        queries.data(), query_scale.data(), x.dim, values.data(),
                        value_scale.data()});
  });
}

// The sizes are those of check_softmax.
void check_int16(const sam_rlx::KernelTable& table) {
  constexpr double kBound = 0x1p-8;  // of results between -1 and 1
  check_int16_packing(table);
  for (const std::int64_t keys : {1, 2, 9, 50}) {
    for (const std::int64_t dim : {1, 7, 64}) {
      for (const std::int64_t value_dim : {1, 15, 32}) {
        for (const std::int64_t columns : {std::int64_t{3}, std::int64_t{table.gemm_nr}}) {
          for (const std::int64_t map_width : {0, 3, 16}) {
            Case test("attention of 16 bits", {keys, dim, value_dim, columns, map_width});
            const Attention x(test, keys, columns, dim, value_dim, map_width);
            Numbers truth = x.truth();
            for (Number& number : truth) number.error += kBound;
            for (const bool whole : {false, true}) {
              test.expect("attend_int16", truth, attend_int16(table, x, whole));
            }
          }
        }
      }
    }
  }
}

}  // namespace
