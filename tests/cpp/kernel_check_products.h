// Checks of products of matrices: parts of kernel_check.cpp.

#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernel_check.h"

namespace {

// C (m, n) = activation(A W^T + bias) + residual of random numbers. Whole: all of it is exact, so
// every product of a sum counts, however long the sum is.
struct Product {
  Product(Case& test, std::int64_t m_, std::int64_t n_, std::int64_t k_, bool whole_ = false)
      : m(m_), n(n_), k(k_), whole(whole_) {
    const auto draw = [&](std::int64_t count) {
      return whole ? test.whole_numbers(count) : test.floats(count);
    };
    a = draw(m * k);
    w = draw(n * k);
    bias = draw(n);
    residual = draw(m * n);
  }

  // All of it but A, B and C.
  sam_rlx::GemmArgs target() const {
    sam_rlx::GemmArgs g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.c_row_stride = n;
    g.column_bias = bias.data();
    g.activation = whole ? sam_rlx::kGemmRelu : sam_rlx::kGemmGelu;
    g.residual = residual.data();
    g.residual_row_stride = n;
    return g;
  }

  std::int64_t m, n, k;
  bool whole;
  Floats a, w, bias, residual;
};

// C of the sums sum(i, j), as bias, activation and residual of `g` change them.
Numbers finished(const sam_rlx::GemmArgs& g, const auto& sum) {
  Numbers c;
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      Number x = sum(i, j);
      if (g.column_bias != nullptr) x = x + exact(static_cast<double>(g.column_bias[j]));
      if (g.activation == sam_rlx::kGemmRelu) x = relu(x);
      if (g.activation == sam_rlx::kGemmGelu) x = gelu(x);
      if (g.residual != nullptr) {
        x = x + exact(static_cast<double>(g.residual[i * g.residual_row_stride + j]));
      }
      c.push_back(x);
    }
  }
  return c;
}

// The result of `product` with the matrices a (m, k) and w (n, k).
Numbers truth_of(const Product& product, const Floats& a, const Floats& w) {
  const std::int64_t k = product.k;
  Numbers c = finished(product.target(), [&](std::int64_t i, std::int64_t j) {
    const float* const row = a.data() + i * k;
    const float* const channel = w.data() + j * k;
    return sum_of_products(k, [&](std::int64_t p) {
      return static_cast<double>(row[p]) * static_cast<double>(channel[p]);
    });
  });
  if (product.whole) {
    for (Number& x : c) x.error = 0.0;
  }
  return c;
}

enum class Layout { kPacked, kRows, kColumns };

// With A packed by the table, or plain: row by row, or column by column.
Floats run_gemm(const sam_rlx::KernelTable& t, const Product& p, Layout layout) {
  const std::int64_t m = p.m, k = p.k, mr = t.gemm_mr, nr = t.gemm_nr;
  Floats packed_w(static_cast<std::size_t>((p.n + nr - 1) / nr * nr * k));
  t.pack_weight(p.w.data(), k, p.n, k, packed_w.data());
  const Floats packed_a = packed_rows(p.a, k, mr, t.pack_a_rows);
  Floats columns(p.a.size());
  for (std::int64_t i = 0; i < m * k; ++i) {
    columns[static_cast<std::size_t>(i % k * m + i / k)] = p.a[static_cast<std::size_t>(i)];
  }
  Floats c(static_cast<std::size_t>(m * p.n), -1.0F);
  sam_rlx::GemmArgs g = p.target();
  const bool by_rows = layout == Layout::kRows, by_columns = layout == Layout::kColumns;
  g.a = by_rows ? p.a.data() : by_columns ? columns.data() : packed_a.data();
  g.a_row_stride = by_rows ? k : 1;
  g.a_k_stride = by_rows ? 1 : by_columns ? m : mr;
  g.a_panel_stride = by_columns ? mr : mr * k;
  g.b = packed_w.data();
  g.b_k_stride = nr;
  g.b_panel_stride = nr * k;
  g.c = c.data();
  t.gemm(g);
  return c;
}

void check_gemm(const sam_rlx::KernelTable& table) {
  const std::int64_t sizes[] = {1, 3, 8, 13, 29, 64};
  for (const std::int64_t m : sizes) {
    for (const std::int64_t n : sizes) {
      for (const std::int64_t k : {1, 7, 8, 20, 64, 1000}) {
        for (const bool whole : {false, true}) {
          Case test("gemm", {m, n, k, whole});
          const Product product(test, m, n, k, whole);
          const Numbers truth = truth_of(product, product.a, product.w);
          test.expect("packed", truth, run_gemm(table, product, Layout::kPacked));
          test.expect("by rows", truth, run_gemm(table, product, Layout::kRows));
          test.expect("by columns", truth, run_gemm(table, product, Layout::kColumns));
        }
      }
    }
  }
}

// Bits of a bfloat16: the upper half of a float32, rounded to nearest even. A NaN becomes quiet.
std::uint16_t bfloat16_of(float x) {
  std::uint32_t word = 0;
  std::memcpy(&word, &x, sizeof(word));
  if (x != x) return static_cast<std::uint16_t>(word >> 16 | 0x40U);
  const std::uint32_t rest = word & 0xFFFFU;
  const bool up = rest > 0x8000U || (rest == 0x8000U && (word >> 16 & 1U) != 0);
  return static_cast<std::uint16_t>((word >> 16) + (up ? 1U : 0U));
}
float float_of(std::uint16_t x) {
  const std::uint32_t word = std::uint32_t{x} << 16;
  float value = 0.0F;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}
Floats to_bfloat16(Floats x) {
  for (float& v : x) v = float_of(bfloat16_of(v));
  return x;
}

// Rows of bfloat16 and panels of pairs, of the sizes that kernels may read.
struct Pairs {
  std::int64_t stride = 0;
  std::vector<std::uint16_t> rows, panels;
};

Pairs pairs_of(const sam_rlx::KernelTable& t, const Product& product) {
  const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by * by; };
  const std::int64_t nr = t.gemm_nr, k = product.k;
  Pairs out;
  out.stride = up(k, sam_rlx::kBFloat16Depth);
  out.rows.resize(static_cast<std::size_t>(up(product.m, sam_rlx::kBFloat16Rows) * out.stride));
  out.panels.resize(static_cast<std::size_t>(up(product.n, nr) * out.stride));
  for (std::int64_t i = 0; i < product.m * k; ++i) {
    out.rows[static_cast<std::size_t>(i / k * out.stride + i % k)] =
        bfloat16_of(product.a[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t i = 0; i < product.n * k; ++i) {
    const std::int64_t j = i / k, p = i % k;
    const std::int64_t position = ((j / nr * out.stride / 2 + p / 2) * nr + j % nr) * 2 + p % 2;
    out.panels[static_cast<std::size_t>(position)] =
        bfloat16_of(product.w[static_cast<std::size_t>(i)]);
  }
  return out;
}

Floats run_bfloat16(const sam_rlx::KernelTable& t, const Product& product) {
  const Pairs pairs = pairs_of(t, product);
  Floats c(static_cast<std::size_t>(product.m * product.n), -1.0F);
  sam_rlx::BFloat16GemmArgs g;
  g.target = product.target();
  g.target.c = c.data();
  g.a = pairs.rows.data();
  g.a_row_stride = pairs.stride;
  g.b = pairs.panels.data();
  t.bfloat16_gemm(g);
  return c;
}

void check_bfloat16_gemm(const sam_rlx::KernelTable& table) {
  for (const std::int64_t m : {1, 5, 32, 45}) {
    for (const std::int64_t n : {1, 15, 33}) {
      for (const std::int64_t k : {1, 2, 32, 33, 129}) {
        for (const bool whole : {false, true}) {
          Case test("bfloat16_gemm", {m, n, k, whole});
          const Product product(test, m, n, k, whole);
          test.expect("packed", truth_of(product, to_bfloat16(product.a), to_bfloat16(product.w)),
                      run_bfloat16(table, product));
        }
      }
    }
  }
}

}  // namespace
