#include "ops/streaming_attention.h"

#include <numeric>
#include <type_traits>

#include "core/error.h"

namespace sam_rlx {
AttentionTiles::AttentionTiles(const KernelTable& kernels, const AttentionSizes& sizes)
    : kernels_(kernels), sizes_(sizes) {
  constexpr std::int64_t kKeyBlock =
      256;  // scores of 32 KB (docs/develop/optimizations.md: key-blocks)
  constexpr std::int64_t kQueryBlock = 128;  // that share a block of keys in the cache
  mr_ = kernels.gemm_mr;
  nr = kernels.gemm_nr;
  SAM_RLX_DCHECK(nr <= QueryRows::kMax && mr_ <= QueryRows::kMax);
  SAM_RLX_DCHECK(sizes.head_dim > 0 && sizes.value_dim > 0);
  SAM_RLX_DCHECK((sizes.rel_h == nullptr) == (sizes.rel_w == nullptr));
  SAM_RLX_DCHECK(sizes.rel_h == nullptr || !sizes.bias);
  query_scale_ = bfloat16() ? 1.0F : sizes.scale * kLog2E;
  key_step = mr_;
  if (bfloat16()) key_step = kBFloat16Depth;
  if (int16()) key_step = kInt16Keys / std::lcm(mr_, 2) * std::lcm(mr_, 2);
  panels = std::clamp<std::int64_t>((sizes.max_queries + nr - 1) / nr, 1, kQueryBlock / nr);
  const std::int64_t max_keys = round_up(sizes.max_keys, key_step);
  key_block_ = int16() ? key_step : std::min(kKeyBlock / key_step * key_step, max_keys);
  if (bfloat16()) {
    key_stride_ = round_up(sizes.head_dim, kBFloat16Depth);
    query_words_ = key_stride_ / 2;
    key_floats_ = max_keys * key_stride_ / 2;
    value_block_ = round_up(sizes.value_dim, kBFloat16Rows) * key_block_ / 2;
    value_floats_ = (max_keys + key_block_ - 1) / key_block_ * value_block_;
  } else if (int16()) {
    int16_limit_ = static_cast<float>(int16_limit(sizes.head_dim));
    query_words_ = (sizes.head_dim + 1) / 2;
    key_words_ = max_keys * query_words_;
    key_floats_ = key_words_ + max_keys;
    value_words_ = round_up(sizes.value_dim, mr_) * key_block_ / 2;
    value_block_ = value_words_ + round_up(sizes.value_dim, mr_);
    value_floats_ = max_keys / key_block_ * value_block_;
  } else {
    key_floats_ = max_keys * sizes.head_dim;
    value_floats_ = round_up(sizes.value_dim, mr_) * sizes.max_keys;
  }
  const bool rel = sizes.rel_h != nullptr;
  table_h_ = rel ? round_up(2 * sizes.rel_height - 1, mr_) * sizes.head_dim : 0;
  table_w_ = rel ? round_up(2 * sizes.rel_width - 1, mr_) * sizes.head_dim : 0;
  std::int64_t terms = rel || sizes.bias ? sizes.rel_height + sizes.rel_width : 0;
  if (sizes.pair_bias) terms = 1;
  panel_floats_ = nr * (sizes.head_dim + query_words_ + sizes.value_dim + 3 + terms);
  const std::int64_t side = std::max(sizes.rel_height, sizes.rel_width);
  const std::int64_t scores = key_block_ + (bfloat16() ? key_block_ / 2 : 0);
  shared_floats_ = nr * std::max(scores, rel ? 2 * side - 1 + mr_ : 0);
}

AttentionTiles::Panel AttentionTiles::panel(std::int64_t index, float* scratch) const {
  Panel p{};
  p.query = scratch + shared_floats_ + index * panel_floats_;
  p.result = p.query + nr * sizes_.head_dim;
  p.max = p.result + nr * sizes_.value_dim;
  p.sum = p.max + nr;
  if (sizes_.rel_h != nullptr || sizes_.bias || sizes_.pair_bias) {
    p.rel_h = p.sum + nr;
    p.rel_w = p.rel_h + nr * sizes_.rel_height;
  }
  float* const end = scratch + shared_floats_ + (index + 1) * panel_floats_;
  p.query_scale = end - nr;
  p.pairs = p.query_scale - nr * query_words_;
  return p;
}

void AttentionTiles::pack_tables(float* out) const {
  const auto pack = [&](const float* table, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; i += mr_, out += mr_ * sizes_.head_dim) {
      const float* pointers[QueryRows::kMax] = {};
      for (std::int64_t r = 0; r < std::min(mr_, rows - i); ++r) {
        pointers[r] = table + (i + r) * sizes_.head_dim;
      }
      kernels_.pack_a_rows(pointers, sizes_.head_dim, out);
    }
  };
  if (sizes_.rel_h == nullptr) return;
  pack(sizes_.rel_h, 2 * sizes_.rel_height - 1);
  pack(sizes_.rel_w, 2 * sizes_.rel_width - 1);
}

void AttentionTiles::pack_keys(const float* const* rows, std::int64_t first, std::int64_t count,
                               float* packed) const {
  if (int16()) {
    kernels_.pack_int16_left(rows, count, sizes_.head_dim, int16_limit_,
                             reinterpret_cast<std::int16_t*>(packed + first * query_words_),
                             packed + key_words_ + first);
    return;
  }
  if (bfloat16()) {
    kernels_.pack_bfloat16_left(rows, count, sizes_.head_dim, key_stride_,
                                reinterpret_cast<std::uint16_t*>(packed) + first * key_stride_);
    return;
  }
  packed += first * sizes_.head_dim;
  for (std::int64_t j = 0; j < count; j += mr_, packed += mr_ * sizes_.head_dim) {
    const float* pointers[QueryRows::kMax] = {};
    for (std::int64_t r = 0; r < std::min(mr_, count - j); ++r) pointers[r] = rows[j + r];
    kernels_.pack_a_rows(pointers, sizes_.head_dim, packed);
  }
}

// Where the numbers of a key, a multiple of key_step, begin in packed values.
template <class Float>
auto AttentionTiles::bfloat16_values(Float* packed, std::int64_t key) const {
  using Half = std::conditional_t<std::is_const_v<Float>, const std::uint16_t, std::uint16_t>;
  return reinterpret_cast<Half*>(packed + key / key_block_ * value_block_) +
         key % key_block_ * kernels_.bfloat16_panels.left_rows;
}

void AttentionTiles::pack_values(const float* const* rows, std::int64_t first, std::int64_t count,
                                 std::int64_t keys, float* packed) const {
  if (int16()) {
    // A block of keys at a time: they share the scales of their values.
    float* block = packed + first / key_block_ * value_block_;
    for (std::int64_t j = 0; j < count; j += key_block_, block += value_block_) {
      kernels_.pack_int16_left_columns(rows + j, std::min(key_block_, count - j), sizes_.value_dim,
                                       float{kInt16Value}, reinterpret_cast<std::int16_t*>(block),
                                       block + value_words_);
    }
    return;
  }
  if (bfloat16()) {
    for (std::int64_t j = first; j < first + count;) {
      const std::int64_t n = std::min(key_block_ - j % key_block_, first + count - j);
      kernels_.pack_bfloat16_left_columns(rows + (j - first), n, sizes_.value_dim, key_block_,
                                          bfloat16_values(packed, j));
      j += n;
    }
    return;
  }
  kernels_.pack_a_columns(rows, count, sizes_.value_dim, packed + first * mr_, keys * mr_);
}

// out[j][i] = log2(e) * q_i . table[position of i - j + side - 1], for the columns i of a panel.
void AttentionTiles::position_terms(const float* table, std::int64_t side,
                                    std::int32_t Position::* axis, const QueryRows& rows,
                                    std::int64_t count, const float* query, float* products,
                                    float* out) const {
  std::int64_t low = side, high = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    low = std::min<std::int64_t>(low, rows.position[i].*axis);
    high = std::max<std::int64_t>(high, rows.position[i].*axis);
  }
  // Rows [low, high + side) of the table are met; panels of A begin at multiples of mr_.
  const std::int64_t base = low / mr_ * mr_;
  GemmArgs g;
  g.m = high + side - base;
  g.n = lanes_of(count);
  g.k = sizes_.head_dim;
  g.a = left_panels(kernels_, table + base * sizes_.head_dim, sizes_.head_dim);
  g.b = right_panels(kernels_, query, sizes_.head_dim);
  g.c = products;
  g.c_row_stride = nr;
  kernels_.gemm(g);
  const float scale = kLog2E / query_scale_;
  std::int64_t offset[QueryRows::kMax] = {};
  for (std::int64_t i = 0; i < count; ++i) offset[i] = rows.position[i].*axis * nr + i;
  for (std::int64_t j = 0; j < side; ++j) {
    float* const to = out + j * nr;
    const float* const from = products + (side - 1 - j - base) * nr;
    if (low == high) {
      for (std::int64_t i = 0; i < g.n; ++i) to[i] = scale * from[low * nr + i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i] = scale * from[offset[i]];
      for (std::int64_t i = count; i < g.n; ++i) to[i] = 0.0F;
    }
  }
}

// out[j][i] = log2(e) * terms[i][j] for the columns i of a panel.
void AttentionTiles::given_terms(const float* const* terms, std::int64_t count, std::int64_t side,
                                 float* out) const {
  const float* pointers[QueryRows::kMax] = {};
  std::copy_n(terms, count, pointers);
  kernels_.pack_b_rows(pointers, side, kLog2E, out);
}

void AttentionTiles::begin_panel(std::int64_t index, const QueryRows& rows, std::int64_t count,
                                 const float* tables, float* scratch) const {
  const Panel p = panel(index, scratch);
  const float* pointers[QueryRows::kMax] = {};
  std::copy_n(rows.query, count, pointers);
  kernels_.pack_b_rows(pointers, sizes_.head_dim, query_scale_, p.query);
  if (bfloat16()) {
    kernels_.pack_bfloat16_rows(p.query, sizes_.head_dim,
                                reinterpret_cast<std::uint16_t*>(p.pairs));
  }
  if (int16()) {
    kernels_.pack_int16_rows(p.query, sizes_.head_dim, int16_limit_,
                             reinterpret_cast<std::int16_t*>(p.pairs), p.query_scale);
  }
  std::fill_n(p.max, nr, -std::numeric_limits<float>::infinity());
  std::fill_n(p.sum, nr, 0.0F);
  if (sizes_.bias) {
    given_terms(rows.bias_h, count, sizes_.rel_height, p.rel_h);
    given_terms(rows.bias_w, count, sizes_.rel_width, p.rel_w);
  }
  if (sizes_.pair_bias) std::fill_n(p.rel_h, nr, 0.0F);
  if (sizes_.rel_h == nullptr) return;
  position_terms(tables, sizes_.rel_height, &Position::h, rows, count, p.query, scratch, p.rel_h);
  position_terms(tables + table_h_, sizes_.rel_width, &Position::w, rows, count, p.query, scratch,
                 p.rel_w);
}

// A step over keys [softmax.first_key, ... + softmax.keys) for the queries of a panel.
void AttentionTiles::attend(const Panel& p, const UnitKeys& at, std::int64_t keys,
                            SoftmaxColumnsArgs softmax, const NextBlock& next) const {
  softmax.rel_h = p.rel_h;
  // Terms of pairs: of a map of one row, whose columns are the keys.
  softmax.rel_w = sizes_.pair_bias ? at.pair_bias : p.rel_w;
  softmax.running_max = p.max;
  softmax.running_sum = p.sum;
  softmax.result = p.result;
  if (bfloat16()) {
    attend_bfloat16(p, at, softmax, next);
    return;
  }
  if (int16()) {
    attend_int16(p, at, softmax);
    return;
  }
  AttendColumnsArgs args;
  args.softmax = softmax;
  const bool packed = at.row_stride == 0;
  args.keys = at.key + softmax.first_key * (packed ? sizes_.head_dim : at.row_stride);
  args.queries = p.query;
  args.dim = sizes_.head_dim;
  args.values = at.value + softmax.first_key * (packed ? mr_ : at.row_stride);
  args.value_stride = mr_ * keys;
  args.row_stride = at.row_stride;
  kernels_.attend_columns(args);
}

void AttentionTiles::attend_bfloat16(const Panel& p, const UnitKeys& at,
                                     const SoftmaxColumnsArgs& softmax,
                                     const NextBlock& next) const {
  // C (m, columns) = A (m, k) B + residual. Meanwhile a panel's part of the `next_count` numbers
  // behind A's block is fetched.
  const auto multiply = [&](BFloat16GemmArgs g, std::int64_t a_block) {
    g.target.n = softmax.columns;
    g.target.c_row_stride = g.target.residual_row_stride = nr;
    if (g.next_count > 0) {
      g.next_count = (g.next_count + next.panels - 1) / next.panels;
      g.next = g.a + a_block + next.panel * g.next_count;
    }
    kernels_.bfloat16_gemm(g);
  };
  auto* const weights = reinterpret_cast<std::uint16_t*>(softmax.scores + nr * key_block_);
  const auto* const keys = reinterpret_cast<const std::uint16_t*>(at.key);
  multiply(
      {.target = {.m = softmax.keys, .k = sizes_.head_dim, .a = {}, .b = {}, .c = softmax.scores},
       .a = keys + softmax.first_key * key_stride_,
       .a_row_stride = key_stride_,
       .b = reinterpret_cast<const std::uint16_t*>(p.pairs),
       .next_count = next.keys},
      softmax.keys * key_stride_);
  kernels_.softmax_bfloat16(softmax, weights);
  multiply({.target = {.m = sizes_.value_dim,
                       .k = softmax.keys,
                       .a = {},
                       .b = {},
                       .c = p.result,
                       .residual = softmax.first_key > 0 ? p.result : nullptr},
            .a = bfloat16_values(at.value, softmax.first_key),
            .a_row_stride = key_block_,
            .b = weights,
            .next_count = next.values},
           2 * value_block_);
}

void AttentionTiles::attend_int16(const Panel& p, const UnitKeys& at,
                                  const SoftmaxColumnsArgs& softmax) const {
  AttendInt16Args args;
  args.softmax = softmax;
  args.keys = reinterpret_cast<const std::int16_t*>(at.key + softmax.first_key * query_words_);
  args.key_scale = at.key + key_words_ + softmax.first_key;
  args.queries = reinterpret_cast<const std::int16_t*>(p.pairs);
  args.query_scale = p.query_scale;
  args.dim = sizes_.head_dim;
  const float* const block = at.value + softmax.first_key / key_block_ * value_block_;
  args.values = reinterpret_cast<const std::int16_t*>(block);
  args.value_scale = block + value_words_;
  kernels_.attend_int16(args);
}

void AttentionTiles::run(std::int64_t count, std::int64_t keys, const UnitKeys& at,
                         float* scratch) const {
  SoftmaxColumnsArgs softmax;
  softmax.scores = scratch;
  softmax.scale = sizes_.scale * kLog2E / query_scale_;
  softmax.rel_width = sizes_.rel_width;
  softmax.value_dim = sizes_.value_dim;
  for (std::int64_t first = 0; first < keys; first += key_block_) {
    softmax.keys = std::min(key_block_, keys - first);
    softmax.first_key = first;
    const std::int64_t left = keys - first - softmax.keys;
    NextBlock next{.keys = std::min(left, key_block_) * key_stride_,
                   .values = left > 0 ? 2 * value_block_ : 0,
                   .panels = (count + nr - 1) / nr};
    for (std::int64_t i = 0; i < count; i += nr) {
      next.panel = i / nr;
      softmax.columns = lanes_of(std::min(nr, count - i));
      UnitKeys of_panel = at;
      if (sizes_.pair_bias) of_panel.pair_bias += i * keys;
      attend(panel(next.panel, scratch), of_panel, keys, softmax, next);
    }
  }
}

void AttentionTiles::end_panel(std::int64_t index, QueryRows& rows, std::int64_t count,
                               float* scratch) const {
  const Panel p = panel(index, scratch);
  kernels_.unpack_columns(p.result, p.sum, count, sizes_.value_dim, rows.out);
}

}  // namespace sam_rlx
