// Checks of products of matrices: parts of kernel_check.cpp.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernel_check.h"
#include "ops/operands.h"

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
  const std::int64_t m = p.m, k = p.k, nr = t.gemm_nr;
  Floats packed_w(static_cast<std::size_t>((p.n + nr - 1) / nr * nr * k));
  t.pack_weight(p.w.data(), k, p.n, k, packed_w.data());
  const Floats packed_a = packed_rows(p.a, k, t.gemm_mr, t.pack_a_rows);
  Floats columns(p.a.size());
  for (std::int64_t i = 0; i < m * k; ++i) {
    columns[static_cast<std::size_t>(i % k * m + i / k)] = p.a[static_cast<std::size_t>(i)];
  }
  Floats c(static_cast<std::size_t>(m * p.n), -1.0F);
  sam_rlx::GemmArgs g = p.target();
  g.a = layout == Layout::kRows      ? sam_rlx::left_rows(t, p.a.data(), k)
        : layout == Layout::kColumns ? sam_rlx::left_columns(t, columns.data(), m)
                                     : sam_rlx::left_panels(t, packed_a.data(), k);
  g.b = sam_rlx::right_panels(t, packed_w.data(), k);
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

// A and B of bfloat16 as a table reads them, of the sizes that kernels may read.
struct Pairs {
  std::int64_t stride = 0;
  std::vector<std::uint16_t> rows, panels;
};

Pairs pairs_of(const sam_rlx::KernelTable& t, const Product& product) {
  const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by * by; };
  const std::int64_t nr = t.gemm_nr, k = product.k;
  const sam_rlx::PanelShape left = t.bfloat16_panels, right = sam_rlx::right_shape(t, left);
  Pairs out;
  out.stride = up(k, sam_rlx::kBFloat16Depth);
  out.rows.resize(static_cast<std::size_t>(up(product.m, sam_rlx::kBFloat16Rows) * out.stride));
  out.panels.resize(static_cast<std::size_t>(up(product.n, nr) * out.stride));
  for (std::int64_t i = 0; i < product.m * k; ++i) {
    const std::int64_t position = sam_rlx::panel_position(left, out.stride, i / k, i % k);
    out.rows[static_cast<std::size_t>(position)] =
        bfloat16_of(product.a[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t i = 0; i < product.n * k; ++i) {
    const std::int64_t position = sam_rlx::panel_position(right, out.stride, i / k, i % k);
    out.panels[static_cast<std::size_t>(position)] =
        bfloat16_of(product.w[static_cast<std::size_t>(i)]);
  }
  return out;
}

// Bare: without bias, activation and residual.
Floats run_bfloat16(const sam_rlx::KernelTable& t, const Product& product, bool bare = false) {
  const Pairs pairs = pairs_of(t, product);
  Floats c(static_cast<std::size_t>(product.m * product.n), -1.0F);
  sam_rlx::BFloat16GemmArgs g;
  g.target = product.target();
  g.target.c = c.data();
  if (bare) {
    g.target.column_bias = g.target.residual = nullptr;
    g.target.activation = sam_rlx::kGemmNone;
  }
  g.a = pairs.rows.data();
  g.a_row_stride = pairs.stride;
  g.b = pairs.panels.data();
  t.bfloat16_gemm(g);
  return c;
}

// A sum rounded to odd: cut, and the last bit is set if anything was cut. Twice is as good as once,
// so float64 is rounded to odd first. Denormal numbers count as zero.
float sum_to_odd(double x, double y) {
  constexpr double kNormal = 1.1754943508222875e-38;
  if (std::abs(x) < kNormal) x = 0.0;
  if (std::abs(y) < kNormal) y = 0.0;
  const double sum = x + y, part = sum - x;
  if (std::abs(sum) < kNormal) return 0.0F;
  const double rest = (x - (sum - part)) + (y - part);
  const auto odd = [](auto value, auto cut_off) {
    using Value = decltype(value);
    std::conditional_t<sizeof(Value) == 8, std::uint64_t, std::uint32_t> bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    // Towards zero, where rounding to nearest went further.
    if (cut_off != 0 && (value > 0) != (cut_off > 0)) --bits;
    if (cut_off != 0) bits |= 1U;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  };
  const double wide = odd(sum, rest);
  const float narrow = static_cast<float>(wide);
  return odd(narrow, wide - static_cast<double>(narrow));
}

// ARM's BFMMLA has the bits of its manual: two products at a time, their sum and its sum with what
// was there before rounded to odd, whatever the processor.
void check_blocks_of_bfloat16(const sam_rlx::KernelTable& table) {
  for (const std::int64_t m : {1, 9, 16}) {
    for (const std::int64_t k : {1, 2, 3, 4, 5, 8, 31, 200}) {
      Case test("bfloat16_gemm by blocks", {m, k});
      Product product(test, m, 13, k);
      product.a[0] *= 1e-36F;  // products below the normal numbers
      product.w[0] *= 1e-4F;
      const Floats a = to_bfloat16(product.a), w = to_bfloat16(product.w);
      Floats expected;
      for (std::int64_t i = 0; i < m * product.n; ++i) {
        float sum = 0.0F;
        for (std::int64_t p = 0; p < k; p += 2) {
          const auto term = [&](std::int64_t q) {
            return q < k ? at(a, k, i / product.n, q) * at(w, k, i % product.n, q) : 0.0;
          };
          const float pair = sum_to_odd(term(p), term(p + 1));
          sum = sum_to_odd(static_cast<double>(sum), static_cast<double>(pair));
        }
        expected.push_back(sum);
      }
      test.expect_same("bits", expected, run_bfloat16(table, product, true));
    }
  }
}

void check_bfloat16_gemm(const sam_rlx::KernelTable& table) {
  if (table.bfloat16_panels.depth == 4) check_blocks_of_bfloat16(table);
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
