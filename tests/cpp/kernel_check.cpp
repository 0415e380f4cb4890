// Compares each kernel table that this processor can run with the generic one over many shapes, and
// says which ones of the build it cannot run. Needs kernels, kernels/select.cpp and core/cpu.cpp
// only, so that it can be built for another processor and run in an emulator. Exit status 0: all
// agree.

#include "kernel_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "kernel_check_attention.h"
#include "kernel_check_rows.h"
#include "kernels/select.h"
#include "ops/operands.h"

namespace {

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
        const Product product(m, n, k);
        const Floats truth = run_gemm(generic, product, Layout::kPacked);
        compare_sums("gemm", truth, run_gemm(table, product, Layout::kPacked), k);
        compare_sums("gemm by rows", truth, run_gemm(table, product, Layout::kRows), k);
        compare_sums("gemm by columns", truth, run_gemm(table, product, Layout::kColumns), k);
      }
    }
  }
}

using Bytes = std::vector<std::uint8_t>;

// Rows as bytes, their scales and zero points.
struct Rows {
  std::int64_t stride = 0;
  Bytes bytes;
  Floats scale;
  std::vector<std::int32_t> zero;
};

Rows run_quantise(const sam_rlx::KernelTable& t, std::int64_t m, std::int64_t k, const Floats& x) {
  Rows rows;
  rows.stride = (k + 63) / 64 * 64;
  rows.bytes.resize(static_cast<std::size_t>(m * rows.stride));
  rows.scale.resize(static_cast<std::size_t>(m));
  rows.zero.resize(static_cast<std::size_t>(m));
  t.quantise_rows({.rows = m,
                   .cols = k,
                   .x = x.data(),
                   .out = rows.bytes.data(),
                   .out_stride = rows.stride,
                   .scale = rows.scale.data(),
                   .zero = rows.zero.data()});
  return rows;
}

// C = relu(A W^T + bias) + residual of bytes.
Floats run_int8(const sam_rlx::KernelTable& t, const sam_rlx::GemmArgs& target, const Rows& rows,
                const Floats& w) {
  const std::int64_t n = (target.n + t.gemm_nr - 1) / t.gemm_nr * t.gemm_nr;
  std::vector<std::int8_t> panels(static_cast<std::size_t>(n * ((target.k + 3) / 4 * 4)));
  Floats scale(static_cast<std::size_t>(n));
  std::vector<std::int32_t> sum(static_cast<std::size_t>(n));
  t.pack_int8_weight({.n = target.n,
                      .k = target.k,
                      .weight = w.data(),
                      .out = panels.data(),
                      .scale = scale.data(),
                      .sum = sum.data()});
  Floats c(static_cast<std::size_t>(target.m * target.n), -1.0F);
  sam_rlx::Int8GemmArgs g;
  g.target = target;
  g.target.c = c.data();
  g.a = rows.bytes.data();
  g.a_row_stride = rows.stride;
  g.a_scale = rows.scale.data();
  g.a_zero = rows.zero.data();
  g.b = panels.data();
  g.b_scale = scale.data();
  g.b_sum = sum.data();
  t.int8_gemm(g);
  return c;
}

// Rows as bytes are the same everywhere.
void check_bytes(const sam_rlx::KernelTable& table) {
  for (const std::int64_t m : {1, 5}) {
    for (const std::int64_t k : {1, 3, 15, 16, 17, 64, 129, 1000}) {
      Floats x = random_floats(static_cast<std::size_t>(m * k));
      std::fill_n(x.begin(), k, m == 1 ? -3.0F : 0.0F);
      const Rows rows = run_quantise(generic, m, k, x), same = run_quantise(table, m, k, x);
      for (std::int64_t i = 0; i < m; ++i) {
        const auto begin = static_cast<std::size_t>(i * rows.stride);
        if (std::memcmp(&rows.bytes[begin], &same.bytes[begin], static_cast<std::size_t>(k)) != 0) {
          fail("quantise_rows: bytes differ");
        }
      }
      if (rows.scale != same.scale || rows.zero != same.zero) fail("quantise_rows: scales differ");
    }
  }
}

// Sums of bytes have the same bits everywhere; behind GELU its polynomials differ.
void check_int8_shape(const sam_rlx::KernelTable& table, std::int64_t m, std::int64_t n,
                      std::int64_t k) {
  const Product product(m, n, k);
  const Rows rows = run_quantise(generic, m, k, product.a);
  sam_rlx::GemmArgs target = product.target();
  const auto check = [&](const char* what, float bound) {
    expect_close(what, run_int8(generic, target, rows, product.w),
                 run_int8(table, target, rows, product.w), bound);
  };
  target.activation = sam_rlx::kGemmRelu;
  check("int8_gemm, relu and residual", 0.0F);
  target.residual = nullptr;
  target.activation = sam_rlx::kGemmGelu;
  // 1.5e-7 of its argument in either.
  check("int8_gemm, gelu", 3e-7F * (1.0F + std::sqrt(static_cast<float>(k))));
  target.activation = sam_rlx::kGemmNone;
  target.column_bias = nullptr;
  check("int8_gemm", 0.0F);
}

void check_int8(const sam_rlx::KernelTable& table) {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 13}) {
    for (const std::int64_t n : {1, 8, 16, 17, 31, 33, 70}) {
      for (const std::int64_t k : {1, 3, 4, 6, 64, 131}) check_int8_shape(table, m, n, k);
    }
  }
  check_int8_shape(table, 45, 33, 131);
  check_int8_shape(table, 64, 70, 1001);
  // Bytes and weights at their limits, as far as the sums go: 63.5 becomes 64.
  for (const float sign : {1.0F, -1.0F}) {
    const Floats x(64, 1.0F), w(static_cast<std::size_t>(3 * 64), 63.5F * sign);
    sam_rlx::GemmArgs target;
    target.m = 1;
    target.n = 3;
    target.k = 64;
    target.c_row_stride = 3;
    compare("int8_gemm, limits", Floats(3, 64.0F * 64.0F * sign),
            run_int8(table, target, run_quantise(table, 1, 64, x), w), 1e-6F);
  }
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
  for (std::int64_t i = 0; i < product.m; ++i) {
    t.round_bfloat16(product.a.data() + i * k, k, out.rows.data() + i * out.stride);
  }
  std::vector<std::uint16_t> row(static_cast<std::size_t>(k));
  for (std::int64_t j = 0; j < product.n; ++j) {
    t.round_bfloat16(product.w.data() + j * k, k, row.data());
    for (std::int64_t p = 0; p < k; ++p) {
      const std::int64_t place = ((j / nr * out.stride / 2 + p / 2) * nr + j % nr) * 2 + p % 2;
      out.panels[static_cast<std::size_t>(place)] = row[static_cast<std::size_t>(p)];
    }
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

// Fewer rows than lanes, as many, and more; and a row has the same bits among others as alone.
void check_layer_norm(const sam_rlx::KernelTable& table) {
  for (const std::int64_t cols : {1, 5, 16, 67, 96, 256}) {
    const Floats w = random_floats(static_cast<std::size_t>(cols));
    const Floats b = random_floats(static_cast<std::size_t>(cols));
    for (const std::int64_t rows : {1, 3, 16, 37}) {
      const Floats x = random_floats(static_cast<std::size_t>(rows * cols));
      Floats expected(x.size()), found(x.size()), alone(x.size());
      generic.layer_norm_rows(x.data(), rows, cols, w.data(), b.data(), 1e-6F, expected.data());
      table.layer_norm_rows(x.data(), rows, cols, w.data(), b.data(), 1e-6F, found.data());
      compare("layer_norm_rows", expected, found, 1e-5F);
      for (std::int64_t r = 0; r < rows; ++r) {
        table.layer_norm_rows(x.data() + r * cols, 1, cols, w.data(), b.data(), 1e-6F,
                              alone.data() + r * cols);
      }
      compare("layer_norm_rows, one by one", alone, found, 0.0F);
      alone = x;
      table.layer_norm_rows(alone.data(), rows, cols, w.data(), b.data(), 1e-6F, alone.data());
      compare("layer_norm_rows, in place", alone, found, 0.0F);
    }
  }
}

void check_bfloat16_gemm(const sam_rlx::KernelTable& table) {
  for (const std::int64_t m : {1, 5, 32, 45}) {
    for (const std::int64_t n : {1, 15, 33}) {
      for (const std::int64_t k : {1, 2, 32, 33, 129}) {
        const Product product(m, n, k);
        compare_sums("bfloat16_gemm", run_bfloat16(generic, product), run_bfloat16(table, product),
                     k);
      }
    }
  }
}

// A kernel, the check that compares it, and what takes it out of a table.
struct Checked {
  const char* kernel;
  void (*check)(const sam_rlx::KernelTable&);
  void (*silence)(sam_rlx::KernelTable&);
};

template <class Result, class... Args>
Result nothing(Args...) noexcept {
  return Result();
}
template <class Result, class... Args>
void replace_by_nothing(Result (*&kernel)(Args...) noexcept) {
  kernel = nothing<Result, Args...>;
}
template <auto Kernel>
void silence(sam_rlx::KernelTable& table) {
  replace_by_nothing(table.*Kernel);
}

using Table = sam_rlx::KernelTable;
constexpr Checked kChecked[] = {
    {"gemm", check_gemm, silence<&Table::gemm>},
    {"pack_weight", check_gemm, silence<&Table::pack_weight>},
    {"pack_a_rows", check_gemm, silence<&Table::pack_a_rows>},
    {"quantise_rows", check_bytes, silence<&Table::quantise_rows>},
    {"pack_int8_weight", check_int8, silence<&Table::pack_int8_weight>},
    {"int8_gemm", check_int8, silence<&Table::int8_gemm>},
    {"widen_bfloat16", check_bfloat16, silence<&Table::widen_bfloat16>},
    {"round_bfloat16", check_bfloat16, silence<&Table::round_bfloat16>},
    {"bfloat16_gemm", check_bfloat16_gemm, silence<&Table::bfloat16_gemm>},
    {"pack_bfloat16_rows", check_bfloat16_packing, silence<&Table::pack_bfloat16_rows>},
    {"pack_a_columns", check_packing, silence<&Table::pack_a_columns>},
    {"pack_b_rows", check_packing, silence<&Table::pack_b_rows>},
    {"transpose_block", check_rowwise, silence<&Table::transpose_block>},
    {"layer_norm_rows", check_layer_norm, silence<&Table::layer_norm_rows>},
    {"softmax_rows", check_rowwise, silence<&Table::softmax_rows>},
    {"gelu", check_rowwise, silence<&Table::gelu>},
    {"softmax_columns", check_softmax, silence<&Table::softmax_columns>},
    {"attend_columns", check_softmax, silence<&Table::attend_columns>},
    {"unpack_columns", check_softmax, silence<&Table::unpack_columns>},
    {"exp_columns", check_columns, silence<&Table::exp_columns>},
    {"softmax_groups", check_columns, silence<&Table::softmax_groups>},
    {"layer_norm_columns", check_columns, silence<&Table::layer_norm_columns>},
    {"depthwise_row", check_depthwise, silence<&Table::depthwise_row>},
    {"pair_products", check_places, silence<&Table::pair_products>},
    {"place_scores", check_places, silence<&Table::place_scores>},
    {"multiply_add_chains", check_chains, silence<&Table::multiply_add_chains>},
};
static_assert(std::size(kChecked) == (sizeof(Table) - offsetof(Table, gemm)) / sizeof(Table::gemm),
              "every kernel is compared with generic's");

void check_table(const sam_rlx::KernelTable& table) {
  std::vector<void (*)(const sam_rlx::KernelTable&)> done;
  for (const Checked& row : kChecked) {
    if (std::find(done.begin(), done.end(), row.check) != done.end()) continue;
    row.check(table);
    done.push_back(row.check);
  }
}

// How many checks do not notice that their kernel does nothing.
int blind_checks() {
  int blind = 0;
  silent = true;
  for (const Checked& row : kChecked) {
    sam_rlx::KernelTable table = generic;
    row.silence(table);
    failures = 0;
    row.check(table);
    if (failures > 0) continue;
    std::printf("%s is not compared\n", row.kernel);
    ++blind;
  }
  silent = false;
  return blind;
}

}  // namespace

int main() {
  const std::vector<const sam_rlx::KernelTable*> tables = sam_rlx::available_kernels();
  int all_failures = blind_checks();
  for (const std::string& name : sam_rlx::compiled_isas()) {
    const auto found = std::find_if(tables.begin(), tables.end(),
                                    [&](const auto* table) { return name == table->name; });
    if (name == generic.name) continue;
    if (found == tables.end()) {
      std::printf("%s: skipped, this processor does not have it\n", name.c_str());
      continue;
    }
    failures = 0;
    check_table(**found);
    std::printf("%s: %d failures\n", name.c_str(), failures);
    all_failures += failures;
  }
  return all_failures == 0 ? 0 : 1;
}
