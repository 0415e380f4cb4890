// Checks of the kernels that are no products of matrices: parts of kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <vector>

#include "kernel_check.h"
#include "kernel_check_products.h"

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

// The same bits everywhere, those of ties and of what is NaN or infinity too.
void check_bfloat16(const sam_rlx::KernelTable& table) {
  for (const std::int64_t n : {1, 15, 16, 33, 256}) {
    Case test("bfloat16", {n});
    Floats x = test.floats(n);
    const float special[] = {1.00390625F,
                             1.01171875F,
                             -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::max(),
                             1e-40F};
    std::vector<std::uint16_t> bits, found(x.size());
    for (const float v : x) bits.push_back(bfloat16_of(v));
    Floats widened(x.size());
    table.widen_bfloat16(bits.data(), n, widened.data());
    test.expect_same("widen_bfloat16", to_bfloat16(x), widened);
    std::copy_n(special, std::min(std::size(special), x.size()), x.begin());
    bits.clear();
    for (const float v : x) bits.push_back(bfloat16_of(v));
    table.round_bfloat16(x.data(), n, found.data());
    if (bits != found) test.fail("round_bfloat16: bits differ");
  }
}

// B given row by row, A by its rows and by its columns, with zeros where numbers are missing. Rows
// of A behind the last one may have anything.
void check_bfloat16_packing(const sam_rlx::KernelTable& table) {
  using Halves = std::vector<std::uint16_t>;
  constexpr std::int64_t kDepth = sam_rlx::kBFloat16Depth;
  const std::int64_t nr = table.gemm_nr;
  const sam_rlx::PanelShape left = table.bfloat16_panels, right = sam_rlx::right_shape(table, left);
  for (const std::int64_t k : {1, 2, 31, 32, 77}) {
    const std::int64_t depth = (k + kDepth - 1) / kDepth * kDepth;
    for (const std::int64_t m : {1, 8, 13, 70}) {
      Case test("packing of bfloat16", {k, m, nr});
      const Floats x = test.floats(k * std::max(m, nr));
      const auto expect = [&](const char* what, sam_rlx::PanelShape shape, std::int64_t stride,
                              std::int64_t count, const Halves& found, auto number) {
        for (std::int64_t i = 0; i < count; ++i) {
          for (std::int64_t p = 0; p < depth; ++p) {
            const std::uint16_t expected = p < k ? bfloat16_of(number(i, p)) : std::uint16_t{0};
            const std::int64_t at = sam_rlx::panel_position(shape, stride, i, p);
            if (found[static_cast<std::size_t>(at)] != expected) return test.fail(what);
          }
        }
      };
      const auto number = [&](std::int64_t at) { return x[static_cast<std::size_t>(at)]; };
      Halves b(static_cast<std::size_t>(depth * nr), 1);
      table.pack_bfloat16_rows(x.data(), k, b.data());
      expect("pack_bfloat16_rows", right, depth, nr, b,
             [&](std::int64_t j, std::int64_t p) { return number(p * nr + j); });
      const std::int64_t stride = depth + kDepth;
      const std::int64_t rows = (m + left.left_rows - 1) / left.left_rows * left.left_rows;
      Halves a(static_cast<std::size_t>(rows * stride), 1);
      table.pack_bfloat16_left(rows_of(x, m, k).data(), m, k, stride, a.data());
      const auto by_rows = [&](std::int64_t i, std::int64_t p) { return number(i * k + p); };
      expect("pack_bfloat16_left", left, stride, m, a, by_rows);
      Halves t(a.size(), 1);
      table.pack_bfloat16_left_columns(rows_of(x, k, m).data(), k, m, stride, t.data());
      const auto by_columns = [&](std::int64_t i, std::int64_t p) { return number(p * m + i); };
      expect("pack_bfloat16_left_columns", left, stride, m, t, by_columns);
    }
  }
}

Numbers exactly(const Floats& x) {
  Numbers out;
  for (const float v : x) out.push_back(exact(static_cast<double>(v)));
  return out;
}

// Each number divided by the sum of all.
Numbers normalised(Numbers x) {
  const Number inverse = exact(1.0) / sum(x);
  for (Number& v : x) v = v * inverse;
  return x;
}

// (x - mean) / sqrt(variance + eps) * weight + bias, with `stride` floats from one to the next.
Numbers layer_norm(const float* x, std::int64_t n, std::int64_t stride, const Floats& weight,
                   const Floats& bias, float eps) {
  Numbers values, squares;
  for (std::int64_t i = 0; i < n; ++i) {
    values.push_back(exact(static_cast<double>(x[i * stride])));
  }
  const Number inverse_count = exact(1.0) / exact(static_cast<double>(n));
  const Number mean = sum(values) * inverse_count;
  for (Number& v : values) v = v - mean;
  for (const Number& v : values) squares.push_back(v * v);
  const Number variance = sum(squares) * inverse_count;
  const Number inverse = exact(1.0) / sqrt(variance + exact(static_cast<double>(eps)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = values[i] * inverse * exact(static_cast<double>(weight[i])) +
                exact(static_cast<double>(bias[i]));
  }
  return values;
}

constexpr float kEps = 1e-6F;

// Fewer rows than lanes, as many, and more; and a row has the same bits among others as alone.
void check_layer_norm(const sam_rlx::KernelTable& table) {
  for (const std::int64_t cols : {1, 5, 16, 67, 96, 256}) {
    for (const std::int64_t rows : {1, 3, 16, 37}) {
      Case test("layer_norm_rows", {cols, rows});
      const Floats w = test.floats(cols), b = test.floats(cols), x = test.floats(rows * cols);
      Numbers truth;
      for (std::int64_t r = 0; r < rows; ++r) {
        const Numbers row = layer_norm(x.data() + r * cols, cols, 1, w, b, kEps);
        truth.insert(truth.end(), row.begin(), row.end());
      }
      Floats found(x.size()), alone(x.size());
      table.layer_norm_rows(x.data(), rows, cols, w.data(), b.data(), kEps, found.data());
      test.expect("all rows", truth, found);
      for (std::int64_t r = 0; r < rows; ++r) {
        table.layer_norm_rows(x.data() + r * cols, 1, cols, w.data(), b.data(), kEps,
                              alone.data() + r * cols);
      }
      test.expect_same("one by one", alone, found);
      alone = x;
      table.layer_norm_rows(alone.data(), rows, cols, w.data(), b.data(), kEps, alone.data());
      test.expect_same("in place", alone, found);
    }
  }
}

void check_gelu(const sam_rlx::KernelTable& table) {
  for (const std::int64_t n : {1, 15, 48, 67, 256}) {
    for (const std::int64_t limit : {1, 10}) {
      Case test("gelu", {n, limit});
      Floats x = test.floats(n, static_cast<float>(limit));
      Numbers truth = exactly(x);
      for (Number& v : truth) v = gelu(v);
      table.gelu(x.data(), n);
      test.expect("all", truth, x);
    }
  }
}

void check_softmax_rows(const sam_rlx::KernelTable& table) {
  constexpr std::int64_t kRows = 3;
  constexpr float kScale = 0.7F;
  for (const std::int64_t cols : {1, 5, 16, 67, 256}) {
    for (const std::int64_t limit : {1, 20}) {
      Case test("softmax_rows", {cols, limit});
      Floats x = test.floats(kRows * cols, static_cast<float>(limit));
      Numbers truth;
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto begin = x.begin() + r * cols;
        const float largest = *std::max_element(begin, begin + cols);
        Numbers row = exactly(Floats(begin, begin + cols));
        for (Number& v : row) {
          v = exp((v - exact(static_cast<double>(largest))) * exact(static_cast<double>(kScale)));
        }
        row = normalised(row);
        truth.insert(truth.end(), row.begin(), row.end());
      }
      table.softmax_rows(x.data(), kRows, cols, kScale);
      test.expect("all", truth, x);
    }
  }
}

void check_transpose(const sam_rlx::KernelTable& table) {
  for (const std::int64_t rows : {1, 3, 16, 21}) {
    for (const std::int64_t cols : {1, 5, 16, 67}) {
      Case test("transpose_block", {rows, cols});
      const Floats x = test.floats(rows * cols);
      Floats expected, found(x.size());
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        expected.push_back(x[static_cast<std::size_t>(i % rows * cols + i / rows)]);
      }
      table.transpose_block(x.data(), cols, rows, cols, found.data(), rows);
      test.expect_same("all", expected, found);
    }
  }
}

constexpr std::int64_t kChannels = 7;

// The numbers of column c of x (rows, cols).
Floats column_of(const Floats& x, std::size_t cols, std::size_t c) {
  Floats column;
  for (std::size_t i = c; i < x.size(); i += cols) column.push_back(x[i]);
  return column;
}

// What change(column) makes of each column, as columns again.
Numbers each_column(const Floats& x, std::int64_t cols, const auto& change) {
  const std::size_t width = static_cast<std::size_t>(cols);
  Numbers out;
  for (std::size_t c = 0; c < width; ++c) {
    const Numbers column = change(column_of(x, width, c));
    out.resize(column.size() * width);
    for (std::size_t r = 0; r < column.size(); ++r) out[r * width + c] = column[r];
  }
  return out;
}

// Exponentials of x - largest.
Numbers exponentials(const Floats& x, float largest) {
  Numbers out = exactly(x);
  for (Number& v : out) v = exp(v - exact(static_cast<double>(largest)));
  return out;
}

void check_exp_columns(const sam_rlx::KernelTable& table) {
  for (const std::int64_t cols : {1, 5, 16, 67}) {
    Case test("exp_columns", {cols});
    const Floats x = test.floats(kChannels * cols);
    const Numbers truth = each_column(x, cols, [](const Floats& column) {
      const float largest = *std::max_element(column.begin(), column.end());
      Numbers out = exponentials(column, largest);
      const Number total = sum(out);
      out.push_back(exact(static_cast<double>(largest)));
      out.push_back(total);
      return out;
    });
    Floats found = x;
    found.resize(truth.size());
    float* const largest = found.data() + kChannels * cols;
    table.exp_columns(found.data(), kChannels, cols, largest, largest + cols);
    test.expect("exponentials, largest numbers, sums", truth, found);
  }
}

void compare_softmax_groups(const sam_rlx::KernelTable& table, std::int64_t groups) {
  for (const std::int64_t lanes : {1, 5, 16, 67}) {
    Case test("softmax_groups", {groups, lanes});
    Floats x = test.floats(groups * lanes);
    const Numbers truth = each_column(x, lanes, [](Floats column) {
      column.push_back(0.0F);
      const float largest = *std::max_element(column.begin(), column.end());
      Numbers out = normalised(exponentials(column, largest));
      out.pop_back();
      return out;
    });
    table.softmax_groups(x.data(), 1, groups, lanes);
    test.expect("all", truth, x);
  }
}

// Few groups wait in a buffer, and many in their own positions.
void check_softmax_groups(const sam_rlx::KernelTable& table) {
  for (const std::int64_t groups : {kChannels, std::int64_t{40}}) {
    compare_softmax_groups(table, groups);
  }
}

void check_norm_columns(const sam_rlx::KernelTable& table) {
  for (const std::int64_t cols : {1, 5, 16, 67}) {
    Case test("layer_norm_columns", {cols});
    Floats x = test.floats(kChannels * cols);
    const Floats weight = test.floats(kChannels), bias = test.floats(kChannels);
    const Numbers truth = each_column(x, cols, [&](const Floats& column) {
      return layer_norm(column.data(), kChannels, 1, weight, bias, kEps);
    });
    table.layer_norm_columns(x.data(), kChannels, cols, weight.data(), bias.data(), kEps);
    test.expect("all", truth, x);
  }
}

// Columns packed into panels of A, and rows into one of B, taken out again.
void check_packing(const sam_rlx::KernelTable& table) {
  const std::int64_t mr = table.gemm_mr, nr = table.gemm_nr;
  for (const std::int64_t k : {1, 5, 16, 67}) {
    for (const std::int64_t m : {1, 13, 45}) {
      Case test("pack_a_columns", {k, m});
      const std::int64_t panels = (m + mr - 1) / mr, stride = k * mr + 3;
      const Floats x = test.floats(k * m);
      std::vector<const float*> columns;
      for (std::int64_t p = 0; p < k; ++p) columns.push_back(x.data() + p * m);
      Floats packed(static_cast<std::size_t>(panels * stride), 9.0F);
      table.pack_a_columns(columns.data(), k, m, packed.data(), stride);
      Floats expected(packed.size(), 9.0F);
      for (std::int64_t i = 0; i < panels; ++i) {
        const Floats panel = panel_of(x, m, i * mr, mr);
        std::copy(panel.begin(), panel.end(), expected.begin() + i * stride);
      }
      test.expect_same("all", expected, packed);
    }
    Case test("pack_b_rows", {k, nr});
    const Floats x = test.floats(nr * k);
    std::vector<const float*> rows(static_cast<std::size_t>(nr), nullptr);
    Floats expected(static_cast<std::size_t>(nr * k)), packed(expected.size(), 9.0F);
    for (std::int64_t i = 0; i < nr - 1; ++i) {  // the last row is missing
      rows[static_cast<std::size_t>(i)] = x.data() + i * k;
      for (std::int64_t p = 0; p < k; ++p) {
        const float number = x[static_cast<std::size_t>(i * k + p)];
        expected[static_cast<std::size_t>(p * nr + i)] = 1.5F * number;
      }
    }
    table.pack_b_rows(rows.data(), k, 1.5F, packed.data());
    test.expect_same("all", expected, packed);
  }
}

// A depthwise convolution of `size` rows whose first one is missing.
Numbers depthwise(const Floats& x, const Floats& w, const Floats& bias, std::int64_t size,
                  std::int64_t width, std::int64_t stride) {
  const auto channels = static_cast<std::int64_t>(bias.size());
  Numbers out;
  for (std::int64_t i = 0; i < (width - 1) / stride * channels + channels; ++i) {
    const std::int64_t position = i / channels * stride, c = i % channels;
    Numbers terms{exact(at(bias, channels, 0, c))};
    for (std::int64_t tap = size; tap < size * size; ++tap) {
      const std::int64_t from = position + tap % size - size / 2;
      if (from < 0 || from >= width) continue;
      terms.push_back(exact(at(w, channels, tap, c)) *
                      exact(at(x, channels, tap / size * width + from, c)));
    }
    out.push_back(sum(terms));
  }
  return out;
}

void check_depthwise(const sam_rlx::KernelTable& table) {
  struct Taps {
    std::int64_t size, stride;
  };
  for (const auto [size, stride] : {Taps{3, 1}, Taps{3, 2}, Taps{7, 1}, Taps{5, 3}, Taps{1, 2}}) {
    for (const std::int64_t channels : {1, 5, 16, 67}) {
      for (const std::int64_t width : {1, 2, 11, 20}) {
        Case test("depthwise_row", {size, stride, channels, width});
        const std::int64_t count = width * channels;
        const Floats x = test.floats(count * size), w = test.floats(size * size * channels);
        const Floats bias = test.floats(channels);
        std::vector<const float*> rows(static_cast<std::size_t>(size), nullptr);
        for (std::int64_t i = 1; i < size; ++i) {
          rows[static_cast<std::size_t>(i)] = x.data() + i * count;
        }
        Floats out(static_cast<std::size_t>(((width - 1) / stride + 1) * channels), -1.0F);
        table.depthwise_row(
            {rows.data(), size, width, channels, w.data(), bias.data(), out.data(), stride});
        test.expect("all", depthwise(x, w, bias, size, width, stride), out);
      }
    }
  }
}

}  // namespace
