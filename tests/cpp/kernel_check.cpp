// Holds each kernel table that this processor can run to float64, over many shapes, and says which
// ones of the build it cannot run. Needs kernels, kernels/select.cpp and core/cpu.cpp only, so that
// it can be built for another processor and run in an emulator.
//
//   kernel_check [--seed N] [--seeds COUNT]
//
// runs all cases with COUNT seeds from N on; 1 and 0 where they are not given. Exit status 0: all
// agree, 1: some do not, 2: the arguments are wrong.

#include "kernel_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "kernel_check_attention.h"
#include "kernel_check_int16.h"
#include "kernel_check_int8.h"
#include "kernel_check_positions.h"
#include "kernel_check_products.h"
#include "kernel_check_rows.h"
#include "kernels/select.h"

namespace {

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
    {"quantize_rows", check_bytes, silence<&Table::quantize_rows>},
    {"pack_int8_weight", check_int8, silence<&Table::pack_int8_weight>},
    {"int8_gemm", check_int8, silence<&Table::int8_gemm>},
    {"widen_bfloat16", check_bfloat16, silence<&Table::widen_bfloat16>},
    {"round_bfloat16", check_bfloat16, silence<&Table::round_bfloat16>},
    {"bfloat16_gemm", check_bfloat16_gemm, silence<&Table::bfloat16_gemm>},
    {"pack_bfloat16_rows", check_bfloat16_packing, silence<&Table::pack_bfloat16_rows>},
    {"pack_bfloat16_left", check_bfloat16_packing, silence<&Table::pack_bfloat16_left>},
    {"pack_bfloat16_left_columns", check_bfloat16_packing,
     silence<&Table::pack_bfloat16_left_columns>},
    {"pack_a_columns", check_packing, silence<&Table::pack_a_columns>},
    {"pack_b_rows", check_packing, silence<&Table::pack_b_rows>},
    {"transpose_block", check_transpose, silence<&Table::transpose_block>},
    {"layer_norm_rows", check_layer_norm, silence<&Table::layer_norm_rows>},
    {"softmax_rows", check_softmax_rows, silence<&Table::softmax_rows>},
    {"gelu", check_gelu, silence<&Table::gelu>},
    {"softmax_columns", check_softmax, silence<&Table::softmax_columns>},
    {"softmax_bfloat16", check_softmax, silence<&Table::softmax_bfloat16>},
    {"attend_columns", check_softmax, silence<&Table::attend_columns>},
    {"pack_int16_rows", check_int16, silence<&Table::pack_int16_rows>},
    {"pack_int16_left", check_int16, silence<&Table::pack_int16_left>},
    {"pack_int16_left_columns", check_int16, silence<&Table::pack_int16_left_columns>},
    {"pack_int16_weight", check_int16_gemm, silence<&Table::pack_int16_weight>},
    {"int16_gemm", check_int16_gemm, silence<&Table::int16_gemm>},
    {"attend_int16", check_int16, silence<&Table::attend_int16>},
    {"unpack_columns", check_softmax, silence<&Table::unpack_columns>},
    {"exp_columns", check_exp_columns, silence<&Table::exp_columns>},
    {"softmax_groups", check_softmax_groups, silence<&Table::softmax_groups>},
    {"layer_norm_columns", check_norm_columns, silence<&Table::layer_norm_columns>},
    {"depthwise_row", check_depthwise, silence<&Table::depthwise_row>},
    {"pair_products", check_positions, silence<&Table::pair_products>},
    {"position_scores", check_positions, silence<&Table::position_scores>},
    {"position_scores_int16", check_integer_positions, silence<&Table::position_scores_int16>},
};
static_assert(std::size(kChecked) == (sizeof(Table) - offsetof(Table, gemm)) / sizeof(Table::gemm),
              "every kernel is compared with float64");

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

struct Seeds {
  std::uint64_t first = 0, count = 1;
  bool valid = true;
};

Seeds parse(int argc, char** argv) {
  Seeds seeds;
  for (int i = 1; i < argc; i += 2) {
    const bool first = std::strcmp(argv[i], "--seed") == 0;
    const bool count = std::strcmp(argv[i], "--seeds") == 0;
    const char* const text = i + 1 < argc ? argv[i + 1] : "";
    const bool digits = *text != '\0' && std::strspn(text, "0123456789") == std::strlen(text);
    const std::uint64_t value = std::strtoull(text, nullptr, 10);
    if (!digits || !(first || (count && value > 0))) seeds.valid = false;
    (first ? seeds.first : seeds.count) = value;
  }
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  const Seeds seeds = parse(argc, argv);
  if (!seeds.valid) {
    std::fprintf(stderr, "usage: %s [--seed N] [--seeds COUNT]\n", argv[0]);
    return 2;
  }
  const std::vector<const sam_rlx::KernelTable*> tables = sam_rlx::available_kernels();
  seed = seeds.first;
  int all_failures = blind_checks();
  for (const std::string& name : sam_rlx::compiled_isas()) {
    const auto found = std::find_if(tables.begin(), tables.end(),
                                    [&](const auto* table) { return name == table->name; });
    if (found == tables.end()) {
      std::printf("%s: skipped, this processor does not have it\n", name.c_str());
      continue;
    }
    failures = 0;
    for (seed = seeds.first; seed - seeds.first < seeds.count; ++seed) check_table(**found);
    std::printf("%s: %d failures\n", name.c_str(), failures);
    std::fflush(stdout);
    all_failures += failures;
  }
  return all_failures == 0 ? 0 : 1;
}
