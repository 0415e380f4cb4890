// Random products, and comparisons that count failures: parts of kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "kernels/kernel_table.h"

namespace {

using Floats = std::vector<float>;

const sam_rlx::KernelTable& generic = sam_rlx::generic_kernels();
int failures = 0;
bool silent = false;  // failures are expected

Floats random_floats(std::size_t count) {
  static std::uint32_t state = 1;
  Floats values(count);
  for (float& v : values) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1.0F;
  }
  return values;
}

// Says the first ones only.
void fail(const char* what) {
  if (++failures <= 20 && !silent) std::printf("%s\n", what);
}

// Expects a largest error of at most `bound`; a NaN is refused.
void expect_close(const char* what, const Floats& expected, const Floats& found, float bound) {
  float error = 0.0F;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float difference = std::abs(expected[i] - found[i]);
    error = difference <= error ? error : difference;  // a NaN stays
  }
  if (error <= bound) return;
  char text[128];
  std::snprintf(text, sizeof(text), "%s: error %g, allowed %g", what, static_cast<double>(error),
                static_cast<double>(bound));
  fail(text);
}

// The same, as a part of the largest number.
void compare(const char* what, const Floats& expected, const Floats& found, float tolerance) {
  float largest = 0.0F;
  for (const float x : expected) largest = std::max(largest, std::abs(x));
  expect_close(what, expected, found, tolerance * std::max(largest, 1e-30F));
}

// Sums of k products of numbers up to 1, and two more: what is left of them may be small.
void compare_sums(const char* what, const Floats& expected, const Floats& found, std::int64_t k) {
  expect_close(what, expected, found, 1e-6F * (1.0F + std::sqrt(static_cast<float>(k))));
}

// C (m, n) = gelu(A W^T + bias) + residual of random numbers.
struct Product {
  Product(std::int64_t m_, std::int64_t n_, std::int64_t k_)
      : m(m_),
        n(n_),
        k(k_),
        a(random_floats(static_cast<std::size_t>(m * k))),
        w(random_floats(static_cast<std::size_t>(n * k))),
        bias(random_floats(static_cast<std::size_t>(n))),
        residual(random_floats(static_cast<std::size_t>(m * n))) {}

  // All of it but A, B and C.
  sam_rlx::GemmArgs target() const {
    sam_rlx::GemmArgs g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.c_row_stride = n;
    g.column_bias = bias.data();
    g.activation = sam_rlx::kGemmGelu;
    g.residual = residual.data();
    g.residual_row_stride = n;
    return g;
  }

  std::int64_t m, n, k;
  Floats a, w, bias, residual;
};

// Rows (n, dim) in panels of `width`, each made by `pack`: a table's pack_a_rows or pack_b_rows.
Floats packed_rows(const Floats& x, std::int64_t dim, std::int64_t width, const auto& pack) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / dim;
  Floats out(static_cast<std::size_t>((rows + width - 1) / width * width * dim));
  for (std::int64_t first = 0; first < rows; first += width) {
    std::vector<const float*> pointers(static_cast<std::size_t>(width), nullptr);
    for (std::int64_t i = first; i < std::min(rows, first + width); ++i) {
      pointers[static_cast<std::size_t>(i - first)] = x.data() + i * dim;
    }
    pack(pointers.data(), dim, out.data() + first * dim);
  }
  return out;
}

}  // namespace
