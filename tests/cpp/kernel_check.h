// Cases with random numbers of their own, and comparisons that count failures: parts of
// kernel_check.cpp.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernel_check_number.h"
#include "kernels/kernel_table.h"

namespace {

using Floats = std::vector<float>;

const sam_rlx::KernelTable& generic = sam_rlx::generic_kernels();
std::uint64_t seed = 0;  // of all cases
int failures = 0;
bool silent = false;  // failures are expected

// A check at some sizes. Its numbers depend on its name, its sizes and the seed alone, so that no
// table and no other case changes them.
class Case {
 public:
  Case(const char* check, std::initializer_list<std::int64_t> sizes) : name_(check) {
    for (const std::int64_t size : sizes) name_ += ' ' + std::to_string(size);
    state_ = seed + 0xCBF29CE484222325U;  // FNV-1a
    for (const char c : name_) {
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    }
  }

  // Uniform in [-limit, limit).
  Floats floats(std::int64_t count, float limit = 1.0F) {
    Floats values(static_cast<std::size_t>(count));
    for (float& v : values) {
      v = limit * (static_cast<float>(next() >> 40) / static_cast<float>(1 << 23) - 1.0F);
    }
    return values;
  }

  // From -4 to 4: float32 sums of less than 2^20 products of these are exact.
  Floats whole_numbers(std::int64_t count) {
    Floats values(static_cast<std::size_t>(count));
    for (float& v : values) v = static_cast<float>(next() >> 40) / static_cast<float>(1 << 24);
    for (float& v : values) v = std::floor(9.0F * v) - 4.0F;
    return values;
  }

  // Says the first ones only.
  void fail(const std::string& what) const {
    if (++failures > 20 || silent) return;
    std::printf("seed %llu, %s: %s\n", static_cast<unsigned long long>(seed), name_.c_str(),
                what.c_str());
  }

  // Expects each number within its bound; a NaN is refused.
  void expect(const char* kernel, const Numbers& truth, const Floats& found) const {
    if (truth.size() != found.size()) return fail(std::string(kernel) + ": sizes differ");
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double error = std::abs(static_cast<double>(found[i]) - truth[i].value);
      if (error <= truth[i].error) continue;
      char text[160];
      std::snprintf(text, sizeof(text),
                    "%s [%zu]: expected %.9g, found %.9g, error %.3g, "
                    "allowed %.3g",
                    kernel, i, truth[i].value, static_cast<double>(found[i]), error,
                    truth[i].error);
      return fail(text);
    }
  }

  // Expects the same numbers; a NaN is refused.
  void expect_same(const char* kernel, const Floats& expected, const Floats& found) const {
    Numbers truth;
    for (const float x : expected) truth.push_back(exact(static_cast<double>(x)));
    expect(kernel, truth, found);
  }

 private:
  std::uint64_t next() {  // SplitMix64
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  std::string name_;
  std::uint64_t state_ = 0;
};

// The element (row, column) of a matrix in rows of `columns`, in float64.
double at(const Floats& x, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return static_cast<double>(x[static_cast<std::size_t>(row * columns + column)]);
}

// Pointers to `count` rows of x, `stride` numbers apart.
std::vector<const float*> rows_of(const Floats& x, std::int64_t count, std::int64_t stride) {
  std::vector<const float*> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(x.data() + i * stride);
  return rows;
}

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
