// Checks of bytes and their products: parts of kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "kernel_check.h"
#include "kernel_check_products.h"

namespace {

// Rows as bytes, their scales and zero points.
struct Rows {
  sam_rlx::PanelShape shape;
  int flip = 0;
  std::int64_t stride = 0;
  std::vector<std::uint8_t> bytes;
  Floats scale;
  std::vector<std::int32_t> zero;

  int byte(std::int64_t i, std::int64_t p) const {
    return bytes[static_cast<std::size_t>(sam_rlx::panel_position(shape, stride, i, p))] ^ flip;
  }
};

Rows run_quantize(const sam_rlx::KernelTable& t, std::int64_t m, std::int64_t k, const Floats& x) {
  Rows rows;
  rows.shape = t.int8_panels;
  rows.flip = t.int8_flip;
  rows.stride = (k + 63) / 64 * 64;
  const std::int64_t width = rows.shape.left_rows;
  rows.bytes.resize(static_cast<std::size_t>((m + width - 1) / width * width * rows.stride));
  rows.scale.resize(static_cast<std::size_t>(m));
  rows.zero.resize(static_cast<std::size_t>(m));
  t.quantize_rows({.rows = m,
                   .cols = k,
                   .x = x.data(),
                   .out = rows.bytes.data(),
                   .out_stride = rows.stride,
                   .scale = rows.scale.data(),
                   .zero = rows.zero.data()});
  return rows;
}

// What the bytes stand for is half a step off at most, but for a few roundings: of the scale, of
// its inverse and of products with it, none of which is above 255 steps.
constexpr double kHalfStep = 0.5 + 255.0 * 8.0 * kRoundoff;

// Rows as bytes are the same everywhere, and near what they stand for.
void check_bytes(const sam_rlx::KernelTable& table) {
  for (const std::int64_t m : {1, 5, 19}) {
    for (const std::int64_t k : {1, 3, 15, 16, 17, 64, 129, 1000}) {
      Case test("quantize_rows", {m, k});
      Floats x = test.floats(m * k);
      std::fill_n(x.begin(), k, m == 1 ? -3.0F : 0.0F);
      const Rows rows = run_quantize(table, m, k, x), same = run_quantize(generic, m, k, x);
      if (rows.scale != same.scale || rows.zero != same.zero) test.fail("scales differ");
      Numbers near;
      Floats found;
      for (std::int64_t i = 0; i < m; ++i) {
        const auto row = static_cast<std::size_t>(i);
        const double scale = static_cast<double>(rows.scale[row]);
        bool equal = true;
        for (std::int64_t p = 0; p < k; ++p) {
          equal = equal && rows.byte(i, p) == same.byte(i, p);
          near.push_back({at(x, k, i, p), scale * kHalfStep});
          found.push_back(static_cast<float>(scale * (rows.byte(i, p) - rows.zero[row])));
        }
        if (!equal) test.fail("bytes differ");
      }
      test.expect("bytes", near, found);
    }
  }
}

// A weight as bytes, packed by a table.
struct Channels {
  Floats scale;
  std::vector<std::int8_t> panels;
  std::vector<std::int32_t> sum;
  sam_rlx::PanelShape shape;
  std::int64_t stride = 0;

  std::int64_t byte(std::int64_t j, std::int64_t p) const {
    return panels[static_cast<std::size_t>(sam_rlx::panel_position(shape, stride, j, p))];
  }
};

Channels run_pack(const sam_rlx::KernelTable& t, std::int64_t n, std::int64_t k, const Floats& w) {
  Channels out;
  out.shape = sam_rlx::right_shape(t, t.int8_panels);
  out.stride = (k + out.shape.depth - 1) / out.shape.depth * out.shape.depth;
  const std::int64_t channels = (n + t.gemm_nr - 1) / t.gemm_nr * t.gemm_nr;
  out.panels.resize(static_cast<std::size_t>(channels * out.stride));
  out.scale.resize(static_cast<std::size_t>(channels));
  out.sum.resize(static_cast<std::size_t>(channels));
  t.pack_int8_weight({.n = n,
                      .k = k,
                      .weight = w.data(),
                      .out = out.panels.data(),
                      .scale = out.scale.data(),
                      .sum = out.sum.data()});
  return out;
}

// Bytes near the weight, pairs that do not overflow, and sums.
void check_channels(const Case& test, const Channels& channels, const Product& product) {
  Numbers near;
  Floats found;
  for (std::int64_t j = 0; j < product.n; ++j) {
    const auto channel = static_cast<std::size_t>(j);
    const double scale = static_cast<double>(channels.scale[channel]);
    std::int64_t total = 0, positive = 0, negative = 0;
    for (std::int64_t p = 0; p < product.k; ++p) {
      const std::int64_t byte = channels.byte(j, p);
      if (p % 2 == 0) positive = negative = 0;
      (byte > 0 ? positive : negative) += std::abs(byte);
      if (std::max(positive, negative) > 128) test.fail("pack_int8_weight: a pair above 128");
      total += byte;
      near.push_back({at(product.w, product.k, j, p), scale * kHalfStep});
      found.push_back(static_cast<float>(scale * static_cast<double>(byte)));
    }
    if (total != channels.sum[channel]) test.fail("pack_int8_weight: sums differ");
  }
  test.expect("pack_int8_weight", near, found);
}

Floats run_int8(const sam_rlx::KernelTable& t, const sam_rlx::GemmArgs& target, const Rows& rows,
                const Channels& channels) {
  Floats c(static_cast<std::size_t>(target.m * target.n), -1.0F);
  sam_rlx::Int8GemmArgs g;
  g.target = target;
  g.target.c = c.data();
  g.a = rows.bytes.data();
  g.a_row_stride = rows.stride;
  g.a_scale = rows.scale.data();
  g.a_zero = rows.zero.data();
  g.b = channels.panels.data();
  g.b_scale = channels.scale.data();
  g.b_sum = channels.sum.data();
  t.int8_gemm(g);
  return c;
}

// Sums of bytes, exact, and then scaled.
std::vector<Number> byte_sums(const Product& product, const Rows& rows, const Channels& channels) {
  Numbers sums;
  for (std::int64_t i = 0; i < product.m; ++i) {
    const auto row = static_cast<std::size_t>(i);
    for (std::int64_t j = 0; j < product.n; ++j) {
      std::int64_t total = 0;
      for (std::int64_t p = 0; p < product.k; ++p) {
        total += (rows.byte(i, p) - rows.zero[row]) * channels.byte(j, p);
      }
      const Number scale = exact(static_cast<double>(rows.scale[row])) *
                           exact(static_cast<double>(channels.scale[static_cast<std::size_t>(j)]));
      sums.push_back(rounded(static_cast<double>(total), 0.0) * scale);
    }
  }
  return sums;
}

// Sums of bytes have the same bits everywhere; behind GELU its polynomials differ.
void check_int8_shape(const sam_rlx::KernelTable& table, std::int64_t m, std::int64_t n,
                      std::int64_t k) {
  Case test("int8_gemm", {m, n, k});
  const Product product(test, m, n, k);
  const Rows rows = run_quantize(table, m, k, product.a);
  const Rows generic_rows = run_quantize(generic, m, k, product.a);
  const Channels channels = run_pack(table, n, k, product.w);
  const Channels generic_channels = run_pack(generic, n, k, product.w);
  check_channels(test, channels, product);
  const Numbers sums = byte_sums(product, rows, channels);
  sam_rlx::GemmArgs target = product.target();
  const auto check = [&](const char* what) {
    const Numbers truth = finished(target, [&](std::int64_t i, std::int64_t j) {
      return sums[static_cast<std::size_t>(i * n + j)];
    });
    const Floats found = run_int8(table, target, rows, channels);
    test.expect(what, truth, found);
    if (target.activation == sam_rlx::kGemmGelu) return;
    test.expect_same(what, run_int8(generic, target, generic_rows, generic_channels), found);
  };
  target.activation = sam_rlx::kGemmRelu;
  check("relu and residual");
  target.residual = nullptr;
  target.activation = sam_rlx::kGemmGelu;
  check("gelu");
  target.activation = sam_rlx::kGemmNone;
  target.column_bias = nullptr;
  check("plain");
}

// Bytes and weights at their limits, as far as the sums go: 63.5 becomes 64.
void check_int8_limits(const sam_rlx::KernelTable& table) {
  for (const std::int64_t sign : {1, -1}) {
    const Case test("int8_gemm at its limits", {sign});
    const Floats x(64, 1.0F), w(static_cast<std::size_t>(3 * 64), 63.5F * static_cast<float>(sign));
    sam_rlx::GemmArgs target;
    target.m = 1;
    target.n = 3;
    target.k = 64;
    target.c_row_stride = 3;
    // Every byte is 255 with scale 1/255, every weight 64 with scale 1.
    const Number sum =
        exact(64.0 * 255.0 * 64.0 * static_cast<double>(sign)) * (exact(1.0) / exact(255.0));
    test.expect("sums", Numbers(3, sum),
                run_int8(table, target, run_quantize(table, 1, 64, x), run_pack(table, 3, 64, w)));
  }
}

void check_int8(const sam_rlx::KernelTable& table) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 13}) {
    for (const std::int64_t n : {1, 8, 12, 17, 31, 33, 70}) {
      for (const std::int64_t k : {1, 3, 4, 6, 9, 64, 131}) check_int8_shape(table, m, n, k);
    }
  }
  check_int8_shape(table, 45, 33, 131);
  check_int8_shape(table, 64, 70, 1001);
  check_int8_limits(table);
}

}  // namespace
