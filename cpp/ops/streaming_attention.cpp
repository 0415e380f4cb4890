#include "ops/streaming_attention.h"

namespace sam_rlx {
namespace {

constexpr float kLog2E = 1.44269504F;  // the softmax runs in base 2

}  // namespace

AttentionTiles::AttentionTiles(const KernelTable& kernels, const AttentionSizes& sizes)
    : kernels_(kernels), sizes_(sizes) {
  constexpr std::int64_t kKeyBlock = 252;    // a tile of scores is then 32 KB of the caches
  constexpr std::int64_t kQueryBlock = 128;  // queries that share a block of keys in the cache
  mr = kernels.gemm_mr;
  nr = kernels.gemm_nr;
  panels = std::clamp<std::int64_t>((sizes.max_queries + nr - 1) / nr, 1, kQueryBlock / nr);
  key_block_ = std::min(kKeyBlock / mr * mr, round_up(sizes.max_keys, mr));
  key_floats_ = round_up(sizes.max_keys, mr) * sizes.head_dim;
  value_floats_ = round_up(sizes.value_dim, mr) * sizes.max_keys;
  const bool rel = sizes.rel_h != nullptr;
  table_h_ = rel ? round_up(2 * sizes.rel_height - 1, mr) * sizes.head_dim : 0;
  table_w_ = rel ? round_up(2 * sizes.rel_width - 1, mr) * sizes.head_dim : 0;
  const std::int64_t terms = rel || sizes.bias ? sizes.rel_height + sizes.rel_width : 0;
  panel_floats_ = nr * (sizes.head_dim + sizes.value_dim + 2 + terms);
  const std::int64_t side = std::max(sizes.rel_height, sizes.rel_width);
  shared_floats_ = nr * std::max(key_block_, rel ? 2 * side - 1 + mr : 0);
}

AttentionTiles::Panel AttentionTiles::panel(std::int64_t index, float* scratch) const {
  Panel p{};
  p.query = scratch + shared_floats_ + index * panel_floats_;
  p.result = p.query + nr * sizes_.head_dim;
  p.max = p.result + nr * sizes_.value_dim;
  p.sum = p.max + nr;
  if (sizes_.rel_h != nullptr || sizes_.bias) {
    p.rel_h = p.sum + nr;
    p.rel_w = p.rel_h + nr * sizes_.rel_height;
  }
  return p;
}

void AttentionTiles::pack_tables(float* out) const {
  const auto pack = [&](const float* table, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; i += mr, out += mr * sizes_.head_dim) {
      const float* pointers[QueryRows::kMax] = {};
      for (std::int64_t r = 0; r < std::min(mr, rows - i); ++r) {
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
  packed += first * sizes_.head_dim;
  for (std::int64_t j = 0; j < count; j += mr, packed += mr * sizes_.head_dim) {
    const float* pointers[QueryRows::kMax] = {};
    for (std::int64_t r = 0; r < std::min(mr, count - j); ++r) pointers[r] = rows[j + r];
    kernels_.pack_a_rows(pointers, sizes_.head_dim, packed);
  }
}

void AttentionTiles::pack_values(const float* const* rows, std::int64_t first, std::int64_t count,
                                 std::int64_t keys, float* packed) const {
  kernels_.pack_a_columns(rows, count, sizes_.value_dim, packed + first * mr, keys * mr);
}

// out[j][i] = log2(e) * q_i . table[place of i - j + side - 1], for the columns i of a panel.
void AttentionTiles::position_terms(const float* table, std::int64_t side,
                                    std::int32_t Place::* axis, const QueryRows& rows,
                                    std::int64_t count, const float* query, float* products,
                                    float* out) const {
  std::int64_t low = side, high = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    low = std::min<std::int64_t>(low, rows.place[i].*axis);
    high = std::max<std::int64_t>(high, rows.place[i].*axis);
  }
  // Rows [low, high + side) of the table are met; panels of A begin at multiples of mr.
  const std::int64_t base = low / mr * mr;
  GemmArgs g;
  g.m = high + side - base;
  g.n = lanes_of(count);
  g.k = sizes_.head_dim;
  g.a = table + base * sizes_.head_dim;
  g.a_row_stride = 1;
  g.a_k_stride = mr;
  g.a_panel_stride = mr * sizes_.head_dim;
  g.b = query;
  g.b_k_stride = nr;
  g.b_panel_stride = nr * sizes_.head_dim;
  g.c = products;
  g.c_row_stride = nr;
  kernels_.gemm(g);
  std::int64_t offset[QueryRows::kMax] = {};
  for (std::int64_t i = 0; i < count; ++i) offset[i] = rows.place[i].*axis * nr + i;
  for (std::int64_t j = 0; j < side; ++j) {
    float* const to = out + j * nr;
    const float* const from = products + (side - 1 - j - base) * nr;
    if (low == high) {
      for (std::int64_t i = 0; i < g.n; ++i) to[i] = kLog2E * from[low * nr + i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i] = kLog2E * from[offset[i]];
      for (std::int64_t i = count; i < g.n; ++i) to[i] = 0.0F;
    }
  }
}

// out[j][i] = log2(e) * terms[i][j] for the columns i of a panel.
void AttentionTiles::given_terms(const float* const* terms, std::int64_t count, std::int64_t side,
                                 float* out) const {
  const float* pointers[QueryRows::kMax] = {};
  std::copy_n(terms, count, pointers);
  kernels_.pack_b_rows(pointers, side, out);
  for (std::int64_t i = 0; i < side * nr; ++i) out[i] *= kLog2E;
}

void AttentionTiles::begin_panel(std::int64_t index, const QueryRows& rows, std::int64_t count,
                                 const float* tables, float* scratch) const {
  const Panel p = panel(index, scratch);
  const float* pointers[QueryRows::kMax] = {};
  std::copy_n(rows.query, count, pointers);
  kernels_.pack_b_rows(pointers, sizes_.head_dim, p.query);
  std::fill_n(p.max, nr, -std::numeric_limits<float>::infinity());
  std::fill_n(p.sum, nr, 0.0F);
  if (sizes_.bias) {
    given_terms(rows.bias_h, count, sizes_.rel_height, p.rel_h);
    given_terms(rows.bias_w, count, sizes_.rel_width, p.rel_w);
  }
  if (sizes_.rel_h == nullptr) return;
  position_terms(tables, sizes_.rel_height, &Place::h, rows, count, p.query, scratch, p.rel_h);
  position_terms(tables + table_h_, sizes_.rel_width, &Place::w, rows, count, p.query, scratch,
                 p.rel_w);
}

void AttentionTiles::run(std::int64_t count, std::int64_t keys, const float* key,
                         const float* value, float* scratch) const {
  GemmArgs scores;
  scores.k = sizes_.head_dim;
  scores.a_row_stride = 1;
  scores.a_k_stride = mr;
  scores.a_panel_stride = mr * sizes_.head_dim;
  scores.b_k_stride = nr;
  scores.b_panel_stride = nr * sizes_.head_dim;
  scores.c = scratch;
  scores.c_row_stride = nr;
  GemmArgs result = scores;
  result.m = sizes_.value_dim;
  result.a_panel_stride = mr * keys;
  result.b = scratch;
  SoftmaxColumnsArgs softmax;
  softmax.scores = scratch;
  softmax.scale = sizes_.scale * kLog2E;
  softmax.rel_width = sizes_.rel_width;
  softmax.value_dim = sizes_.value_dim;
  for (std::int64_t first = 0; first < keys; first += key_block_) {
    const std::int64_t block = std::min(key_block_, keys - first);
    for (std::int64_t i = 0; i < count; i += nr) {
      const Panel p = panel(i / nr, scratch);
      const std::int64_t columns = lanes_of(std::min(nr, count - i));
      scores.m = block;
      scores.n = result.n = softmax.columns = columns;
      scores.a = key + first * sizes_.head_dim;
      scores.b = p.query;
      kernels_.gemm(scores);
      softmax.keys = result.k = block;
      softmax.first_key = first;
      softmax.rel_h = p.rel_h;
      softmax.rel_w = p.rel_w;
      softmax.running_max = p.max;
      softmax.running_sum = p.sum;
      softmax.result = result.c = p.result;
      kernels_.softmax_columns(softmax);
      result.a = value + first * mr;
      result.b_panel_stride = nr * block;
      result.accumulate = first > 0;
      kernels_.gemm(result);
    }
  }
}

void AttentionTiles::end_panel(std::int64_t index, QueryRows& rows, std::int64_t count,
                               float* scratch) const {
  const Panel p = panel(index, scratch);
  kernels_.unpack_columns(p.result, p.sum, count, sizes_.value_dim, rows.out);
}

}  // namespace sam_rlx
