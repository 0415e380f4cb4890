#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "kernels/kernel_table.h"
#include "ops/operands.h"
#include "testing/bench.h"
#include "testing/register.h"

// Each kernel of a table alone, on one thread: blocks as ops hand them over, which stay in the
// second cache.

namespace py = pybind11;
using namespace py::literals;

namespace sam_rlx {
namespace {

// Rows of a block, and the width of ViT-B.
constexpr std::int64_t kRows = 128, kWidth = 768;
constexpr std::int64_t kBlock = kRows * kWidth, kWeight = kWidth * kWidth;
constexpr double kProduct = 2.0 * kRows * kWidth * kWidth;

// What is measured: the kernel on its data, which the closure owns.
using Call = std::function<void()>;
// What a kernel does in one run: arithmetic, or bytes that it reads and writes.
struct Work {
  double amount = 0;
  const char* unit = "FLOP";
};
struct Prepared {
  Call run;
  Work work;
};

constexpr Work bytes(double count) { return {count, "B"}; }

template <class T>
std::shared_ptr<std::vector<T>> numbers(std::int64_t count) {
  return std::make_shared<std::vector<T>>(static_cast<std::size_t>(count));
}
std::shared_ptr<Tensor> floats(std::int64_t count) {
  return std::make_shared<Tensor>(random_tensor({count}));
}
constexpr std::int64_t up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Pointers to `count` rows of x, `stride` numbers apart.
template <class T>
std::vector<T*> rows_of(T* x, std::int64_t count, std::int64_t stride) {
  std::vector<T*> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(x + i * stride);
  return rows;
}

GemmArgs product(const std::shared_ptr<Tensor>& c) {
  GemmArgs g;
  g.m = kRows;
  g.n = g.k = kWidth;
  g.c = c->data();
  g.c_row_stride = kWidth;
  return g;
}

// ---------------------------------------------------------------- products and their packing

Prepared gemm(const KernelTable& t) {
  const auto a = floats(up(kRows, t.gemm_mr) * kWidth), b = floats(up(kWidth, t.gemm_nr) * kWidth);
  const auto c = floats(kBlock);
  return {[=, &t] {
            GemmArgs g = product(c);
            g.a = left_panels(t, a->data(), kWidth);
            g.b = right_panels(t, b->data(), kWidth);
            t.gemm(g);
          },
          {kProduct}};
}

Prepared bfloat16_gemm(const KernelTable& t) {
  const auto a = numbers<std::uint16_t>(up(kRows, kBFloat16Rows) * kWidth);
  const auto b = numbers<std::uint16_t>(up(kWidth, t.gemm_nr) * kWidth);
  const auto c = floats(kBlock);
  return {[=, &t] { t.bfloat16_gemm({product(c), a->data(), kWidth, b->data()}); }, {kProduct}};
}

Prepared int16_gemm(const KernelTable& t) {
  const auto a = numbers<std::int16_t>(up(kRows, t.gemm_mr) * kWidth);
  const auto b = numbers<std::int16_t>(up(kWidth, t.gemm_nr) * kWidth);
  const auto scale = floats(up(kWidth, t.gemm_nr)), c = floats(kBlock);
  return {[=, &t] {
            t.int16_gemm({product(c), a->data(), scale->data(), b->data(), kWidth, scale->data()});
          },
          {kProduct}};
}

Prepared int8_gemm(const KernelTable& t) {
  const std::int64_t n = up(kWidth, t.gemm_nr);
  const auto a = numbers<std::uint8_t>(kBlock);
  const auto b = numbers<std::int8_t>(n * kWidth);
  const auto zero = numbers<std::int32_t>(kRows), sum = numbers<std::int32_t>(n);
  const auto a_scale = floats(kRows), b_scale = floats(n), c = floats(kBlock);
  return {[=, &t] {
            t.int8_gemm({product(c), a->data(), kWidth, a_scale->data(), zero->data(), b->data(),
                         b_scale->data(), sum->data()});
          },
          {kProduct}};
}

Prepared pack_weight(const KernelTable& t) {
  const auto w = floats(kWeight), out = floats(up(kWidth, t.gemm_nr) * kWidth);
  return {[=, &t] { t.pack_weight(w->data(), kWidth, kWidth, kWidth, out->data()); },
          bytes(8.0 * kWeight)};
}

Prepared pack_int16_weight(const KernelTable& t) {
  const std::int64_t n = up(kWidth, t.gemm_nr);
  const auto w = floats(kWeight), scale = floats(n);
  const auto out = numbers<std::int16_t>(n * kWidth);
  return {[=, &t] { t.pack_int16_weight(w->data(), kWidth, kWidth, out->data(), scale->data()); },
          bytes(6.0 * kWeight)};
}

Prepared pack_int8_weight(const KernelTable& t) {
  const std::int64_t n = up(kWidth, t.gemm_nr);
  const auto w = floats(kWeight), scale = floats(n);
  const auto out = numbers<std::int8_t>(n * kWidth);
  const auto sum = numbers<std::int32_t>(n);
  return {
      [=, &t] {
        t.pack_int8_weight({kWidth, kWidth, w->data(), out->data(), scale->data(), sum->data()});
      },
      bytes(5.0 * kWeight)};
}

Prepared widen_bfloat16(const KernelTable& t) {
  const auto x = numbers<std::uint16_t>(kBlock);
  const auto out = floats(kBlock);
  return {[=, &t] { t.widen_bfloat16(x->data(), kBlock, out->data()); }, bytes(6.0 * kBlock)};
}

Prepared round_bfloat16(const KernelTable& t) {
  const auto x = floats(kBlock);
  const auto out = numbers<std::uint16_t>(kBlock);
  return {[=, &t] { t.round_bfloat16(x->data(), kBlock, out->data()); }, bytes(6.0 * kBlock)};
}

Prepared pack_bfloat16_rows(const KernelTable& t) {
  const auto x = floats(kWidth * t.gemm_nr);
  const auto out = numbers<std::uint16_t>(kWidth * t.gemm_nr);
  return {[=, &t] { t.pack_bfloat16_rows(x->data(), kWidth, out->data()); },
          bytes(6.0 * kWidth * static_cast<double>(t.gemm_nr))};
}

Prepared pack_bfloat16_left(const KernelTable& t) {
  const auto x = floats(kBlock);
  const auto out = numbers<std::uint16_t>(kBlock);
  const auto rows = rows_of<const float>(x->data(), kRows, kWidth);
  return {[=, &t] {
            t.pack_bfloat16_left(rows.data(), kRows, kWidth, kWidth, out->data());
            (void)x;
          },
          bytes(6.0 * kBlock)};
}

Prepared pack_bfloat16_left_columns(const KernelTable& t) {
  const auto x = floats(kBlock);
  const auto out = numbers<std::uint16_t>(kBlock);
  const auto columns = rows_of<const float>(x->data(), kWidth, kRows);
  return {[=, &t] {
            t.pack_bfloat16_left_columns(columns.data(), kWidth, kRows, kWidth, out->data());
            (void)x;
          },
          bytes(6.0 * kBlock)};
}

Prepared quantize_rows(const KernelTable& t) {
  const auto x = floats(kBlock), scale = floats(kRows);
  const auto out = numbers<std::uint8_t>(kBlock);
  const auto zero = numbers<std::int32_t>(kRows);
  return {[=, &t] {
            t.quantize_rows(
                {kRows, kWidth, x->data(), out->data(), kWidth, scale->data(), zero->data()});
          },
          bytes(5.0 * kBlock)};
}

// Panels of `width` rows each, one after the other.
template <class Pack>
Prepared pack_panels(std::int64_t width, Pack pack) {
  const std::int64_t panels = kRows / width;
  const auto x = floats(kBlock), out = floats(kBlock);
  const auto rows = rows_of<const float>(x->data(), panels * width, kWidth);
  return {[=] {
            for (std::int64_t i = 0; i < panels; ++i) {
              pack(rows.data() + i * width, kWidth, out->data() + i * width * kWidth);
            }
            (void)x;
          },
          bytes(8.0 * static_cast<double>(panels * width * kWidth))};
}

Prepared pack_a_rows(const KernelTable& t) { return pack_panels(t.gemm_mr, t.pack_a_rows); }
Prepared pack_b_rows(const KernelTable& t) {
  return pack_panels(t.gemm_nr, [&t](const float* const* rows, std::int64_t k, float* out) {
    t.pack_b_rows(rows, k, 0.5F, out);
  });
}

Prepared pack_a_columns(const KernelTable& t) {
  const auto x = floats(kBlock), out = floats(up(kRows, t.gemm_mr) * kWidth);
  const auto columns = rows_of<const float>(x->data(), kWidth, kRows);
  return {[=, &t] {
            t.pack_a_columns(columns.data(), kWidth, kRows, out->data(), kWidth * t.gemm_mr);
            (void)x;
          },
          bytes(8.0 * kBlock)};
}

Prepared transpose_block(const KernelTable& t) {
  const auto x = floats(kBlock), out = floats(kBlock);
  return {[=, &t] { t.transpose_block(x->data(), kWidth, kRows, kWidth, out->data(), kRows); },
          bytes(8.0 * kBlock)};
}

// ---------------------------------------------------------------- attention

// A panel of queries against 512 keys of a head of 64, which are 16 rows of a map: the softmax of
// their scores, whose weights may be rounded, or the softmax and both products.
enum class Attend { kSoftmax, kRoundedSoftmax, kAll };
Prepared attend(const KernelTable& t, Attend steps) {
  constexpr std::int64_t kKeys = 512, kDim = 64, kMap = 32;
  const std::int64_t nr = t.gemm_nr, mr = t.gemm_mr;
  const auto scores = floats(kKeys * nr), rel = floats(kMap * nr), sums = floats(2 * nr);
  const auto result = floats(kDim * nr), queries = floats(kDim * nr);
  const auto keys = floats((kKeys + mr) * kDim), values = floats(kKeys * (kDim + mr));
  const auto weights = numbers<std::uint16_t>(kKeys * nr);
  const auto run = [=, &t] {
    std::fill_n(sums->data(), nr, -std::numeric_limits<float>::infinity());
    std::fill_n(sums->data() + nr, nr, 0.0F);
    const AttendColumnsArgs args{.softmax = {.scores = scores->data(),
                                             .keys = kKeys,
                                             .columns = nr,
                                             .scale = 0.125F,
                                             .rel_h = rel->data(),
                                             .rel_w = rel->data(),
                                             .rel_width = kMap,
                                             .running_max = sums->data(),
                                             .running_sum = sums->data() + nr,
                                             .result = result->data(),
                                             .value_dim = kDim},
                                 .keys = keys->data(),
                                 .queries = queries->data(),
                                 .dim = kDim,
                                 .values = values->data(),
                                 .value_stride = kKeys * mr};
    if (steps == Attend::kAll) t.attend_columns(args);
    if (steps == Attend::kSoftmax) t.softmax_columns(args.softmax);
    if (steps == Attend::kRoundedSoftmax) t.softmax_bfloat16(args.softmax, weights->data());
  };
  const auto count = static_cast<double>(kKeys * nr);
  if (steps == Attend::kAll) return {run, Work{4.0 * kDim * count}};
  return {run, bytes((steps == Attend::kSoftmax ? 8.0 : 6.0) * count)};
}

Prepared softmax_columns(const KernelTable& t) { return attend(t, Attend::kSoftmax); }
Prepared softmax_bfloat16(const KernelTable& t) { return attend(t, Attend::kRoundedSoftmax); }
Prepared attend_columns(const KernelTable& t) { return attend(t, Attend::kAll); }

// The same with integers, for as many keys as a step may have.
Prepared attend_int16(const KernelTable& t) {
  constexpr std::int64_t kKeys = kInt16Keys, kDim = 64;
  const std::int64_t nr = t.gemm_nr, mr = t.gemm_mr;
  const auto scores = floats(kKeys * nr), sums = floats(2 * nr), result = floats(kDim * nr);
  const auto queries = numbers<std::int16_t>(kDim * nr);
  const auto keys = numbers<std::int16_t>((kKeys + mr) * kDim);
  const auto values = numbers<std::int16_t>(kKeys * (kDim + mr));
  const auto scale = floats(kKeys + mr + nr);
  const auto run = [=, &t] {
    std::fill_n(sums->data(), nr, -std::numeric_limits<float>::infinity());
    std::fill_n(sums->data() + nr, nr, 0.0F);
    t.attend_int16({.softmax = {.scores = scores->data(),
                                .keys = kKeys,
                                .columns = nr,
                                .running_max = sums->data(),
                                .running_sum = sums->data() + nr,
                                .result = result->data(),
                                .value_dim = kDim},
                    .keys = keys->data(),
                    .key_scale = scale->data(),
                    .queries = queries->data(),
                    .query_scale = scale->data(),
                    .dim = kDim,
                    .values = values->data(),
                    .value_scale = scale->data()});
  };
  return {run, {4.0 * kDim * static_cast<double>(kKeys * nr)}};
}

Prepared pack_int16_rows(const KernelTable& t) {
  const auto x = floats(kWidth * t.gemm_nr), scale = floats(t.gemm_nr);
  const auto out = numbers<std::int16_t>(kWidth * t.gemm_nr);
  return {[=, &t] { t.pack_int16_rows(x->data(), kWidth, 1000.0F, out->data(), scale->data()); },
          bytes(6.0 * kWidth * static_cast<double>(t.gemm_nr))};
}

Prepared pack_int16_left(const KernelTable& t) {
  const auto x = floats(kBlock), scale = floats(up(kRows, t.gemm_mr));
  const auto out = numbers<std::int16_t>(up(kRows, t.gemm_mr) * kWidth);
  const auto rows = rows_of<const float>(x->data(), kRows, kWidth);
  return {[=, &t] {
            t.pack_int16_left(rows.data(), kRows, kWidth, 1000.0F, out->data(), scale->data());
            (void)x;
          },
          bytes(6.0 * kBlock)};
}

Prepared pack_int16_left_columns(const KernelTable& t) {
  const auto x = floats(kBlock), scale = floats(kRows);
  const auto out = numbers<std::int16_t>(up(kRows, t.gemm_mr) * kWidth);
  const auto columns = rows_of<const float>(x->data(), kWidth, kRows);
  return {[=, &t] {
            t.pack_int16_left_columns(columns.data(), kWidth, kRows, 1000.0F, out->data(),
                                      scale->data());
            (void)x;
          },
          bytes(6.0 * kBlock)};
}

// Panels of queries of four heads of 64, one after the other.
Prepared unpack_columns(const KernelTable& t) {
  constexpr std::int64_t kDim = 256;
  const std::int64_t nr = t.gemm_nr, panels = kBlock / (kDim * nr);
  const auto result = floats(kBlock), sum = floats(nr), out = floats(kBlock);
  const auto rows = rows_of(out->data(), panels * nr, kDim);
  return {[=, &t] {
            for (std::int64_t i = 0; i < panels; ++i) {
              t.unpack_columns(result->data() + i * kDim * nr, sum->data(), nr, kDim,
                               rows.data() + i * nr);
            }
            (void)out;
          },
          bytes(8.0 * static_cast<double>(panels * kDim * nr))};
}

// The sizes of SAM 2's memory: 64 channels, whose pairs become 256.
Prepared pair_products(const KernelTable& t) {
  constexpr std::int64_t kDepth = 64, kPairs = 128;
  const std::int64_t nr = t.gemm_nr;
  const auto weight = floats(2 * kDepth * kPairs), query = floats(2 * kPairs * nr);
  const auto even = floats(kDepth * kPairs * nr), odd = floats(kDepth * kPairs * nr);
  return {
      [=, &t] {
        t.pair_products({weight->data(), query->data(), even->data(), odd->data(), kDepth, kPairs});
      },
      {6.0 * static_cast<double>(kDepth * kPairs * nr)}};
}

Prepared position_scores(const KernelTable& t) {
  constexpr std::int64_t kPositions = 64, kDepth = 64, kMaps = 7;
  const std::int64_t nr = t.gemm_nr;
  const auto keys = floats(kPositions * kDepth * kMaps), column = floats(kPositions * kDepth * nr);
  const auto row = floats(kDepth * nr), sum = floats(kDepth * nr);
  const auto scores = floats(kPositions * kMaps * nr);
  return {[=, &t] {
            t.position_scores({keys->data(), column->data(), row->data(), sum->data(),
                               scores->data(), kPositions, kDepth, kMaps});
          },
          {2.0 * static_cast<double>(kPositions * kDepth * kMaps * nr)}};
}

Prepared position_scores_int16(const KernelTable& t) {
  constexpr std::int64_t kPositions = 64, kDepth = 64, kMaps = 7;
  const std::int64_t nr = t.gemm_nr;
  const auto keys = numbers<std::int16_t>(kPositions * kDepth * kMaps);
  const auto column = numbers<std::int16_t>(kPositions * kDepth * nr);
  const auto row = numbers<std::int16_t>(kDepth * nr);
  const auto key_scale = floats(kPositions * kMaps), query_scale = floats(nr);
  const auto scores = floats(kPositions * kMaps * nr);
  return {
      [=, &t] {
        t.position_scores_int16({keys->data(), key_scale->data(), column->data(), row->data(),
                                 query_scale->data(), scores->data(), kPositions, kDepth, kMaps});
      },
      {2.0 * static_cast<double>(kPositions * kDepth * kMaps * nr)}};
}

// ---------------------------------------------------------------- rows and columns

Prepared layer_norm_rows(const KernelTable& t) {
  const auto x = floats(kBlock), w = floats(kWidth), out = floats(kBlock);
  return {[=, &t] {
            t.layer_norm_rows(x->data(), kRows, kWidth, w->data(), w->data(), 1e-6F, out->data());
          },
          bytes(8.0 * kBlock)};
}

// In place: what they leave is as good as what they found, for times.
Prepared exp_columns(const KernelTable& t) {
  const auto x = floats(kBlock), sums = floats(2 * kWidth);
  return {[=, &t] { t.exp_columns(x->data(), kRows, kWidth, sums->data(), sums->data() + kWidth); },
          bytes(8.0 * kBlock)};
}

Prepared softmax_rows(const KernelTable& t) {
  const auto x = floats(kBlock);
  return {[=, &t] { t.softmax_rows(x->data(), kRows, kWidth, 0.125F); }, bytes(8.0 * kBlock)};
}

// Scores of 8 heads on 8 tokens.
Prepared softmax_groups(const KernelTable& t) {
  constexpr std::int64_t kTokens = 8, kHeads = 8;
  const auto x = floats(kBlock);
  return {[=, &t] { t.softmax_groups(x->data(), kBlock / kTokens / kHeads, kTokens, kHeads); },
          bytes(8.0 * kBlock)};
}

Prepared layer_norm_columns(const KernelTable& t) {
  const auto x = floats(kBlock), w = floats(kRows);
  return {[=, &t] { t.layer_norm_columns(x->data(), kRows, kWidth, w->data(), w->data(), 1e-6F); },
          bytes(8.0 * kBlock)};
}

Prepared gelu(const KernelTable& t) {
  const auto x = floats(kBlock);
  return {[=, &t] { t.gelu(x->data(), kBlock); }, bytes(8.0 * kBlock)};
}

Prepared depthwise_row(const KernelTable& t) {
  constexpr std::int64_t kSize = 7, kPositions = 64, kChannels = 256;
  const auto x = floats(kSize * kPositions * kChannels), w = floats(kSize * kSize * kChannels);
  const auto out = floats(kPositions * kChannels);
  const auto rows = rows_of<const float>(x->data(), kSize, kPositions * kChannels);
  return {[=, &t] {
            t.depthwise_row(
                {rows.data(), kSize, kPositions, kChannels, w->data(), x->data(), out->data()});
          },
          {2.0 * kSize * kSize * kPositions * kChannels}};
}

// Every row of a table, in its order. A test compares the names with kernel_table.h.
struct KernelBench {
  const char* kernel;
  const char* size;
  Prepared (*prepare)(const KernelTable&);
};
constexpr KernelBench kBenches[] = {
    {"gemm", "128x768x768", gemm},
    {"pack_weight", "768x768", pack_weight},
    {"widen_bfloat16", "98304", widen_bfloat16},
    {"round_bfloat16", "98304", round_bfloat16},
    {"bfloat16_gemm", "128x768x768", bfloat16_gemm},
    {"pack_bfloat16_rows", "a panel of 768", pack_bfloat16_rows},
    {"pack_bfloat16_left", "128x768", pack_bfloat16_left},
    {"pack_bfloat16_left_columns", "768x128", pack_bfloat16_left_columns},
    {"quantize_rows", "128x768", quantize_rows},
    {"pack_int8_weight", "768x768", pack_int8_weight},
    {"int8_gemm", "128x768x768", int8_gemm},
    {"pack_a_columns", "768x128", pack_a_columns},
    {"pack_a_rows", "128x768", pack_a_rows},
    {"pack_b_rows", "128x768", pack_b_rows},
    {"transpose_block", "128x768", transpose_block},
    {"softmax_columns", "512 keys of 64", softmax_columns},
    {"softmax_bfloat16", "512 keys of 64", softmax_bfloat16},
    {"attend_columns", "512 keys of 64", attend_columns},
    {"pack_int16_rows", "768xnr", pack_int16_rows},
    {"pack_int16_left", "128x768", pack_int16_left},
    {"pack_int16_left_columns", "768x128", pack_int16_left_columns},
    {"pack_int16_weight", "768x768", pack_int16_weight},
    {"int16_gemm", "128x768x768", int16_gemm},
    {"attend_int16", "128 keys of 64", attend_int16},
    {"pair_products", "64x128", pair_products},
    {"position_scores", "64 positions, 7 maps", position_scores},
    {"position_scores_int16", "64 positions, 7 maps", position_scores_int16},
    {"unpack_columns", "384x256", unpack_columns},
    {"layer_norm_rows", "128x768", layer_norm_rows},
    {"exp_columns", "128x768", exp_columns},
    {"softmax_rows", "128x768", softmax_rows},
    {"softmax_groups", "1536x8x8", softmax_groups},
    {"layer_norm_columns", "128x768", layer_norm_columns},
    {"depthwise_row", "7x7 64x256", depthwise_row},
    {"gelu", "98304", gelu},
};

// [(kernel, size), ...]
py::list kernels() {
  py::list rows;
  for (const KernelBench& bench : kBenches) rows.append(py::make_tuple(bench.kernel, bench.size));
  return rows;
}

// (work of one run, "FLOP" or "B", times)
py::tuple time_kernel(const std::string& name, int repetitions, const Isa& isa) {
  const auto* const bench = std::find_if(std::begin(kBenches), std::end(kBenches),
                                         [&](const KernelBench& b) { return name == b.kernel; });
  if (bench == std::end(kBenches)) fail("kernel", "a row of the table", name);
  const Prepared prepared = bench->prepare(select_kernels(isa ? isa->c_str() : nullptr));
  return py::make_tuple(prepared.work.amount, prepared.work.unit,
                        measure(repetitions, prepared.run));
}

}  // namespace

void register_kernel_bench(py::module_& module) {
  py::module_ bench = module.attr("bench");
  bench.def("kernels", &kernels);
  bench.def("kernel", &time_kernel, "name"_a, "repetitions"_a = 5, "isa"_a = py::none());
}

}  // namespace sam_rlx
