#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/context.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {

inline constexpr float kLog2E = 1.44269504F;  // the softmax runs in base 2

// Attention in tiles (keys x queries), so that no step needs a transposed score: with K and V^T
// packed as the left operands, S = K Q^T has one query in each lane, its softmax runs down the
// columns, and is then the right operand of the result V^T S (value_dim x queries).
//
// A `unit` is one set of keys with its queries and one head: (batch entry or window, head).
struct AttentionSizes {
  std::int64_t units = 0;
  std::int64_t head_dim = 0, value_dim = 0;
  float scale = 1.0F;
  std::int64_t max_queries = 0, max_keys = 0;  // of any unit
  // Relative position: tables (2 rel_height - 1 and 2 rel_width - 1, head_dim), or null.
  const float* rel_h = nullptr;
  const float* rel_w = nullptr;
  std::int64_t rel_height = 1, rel_width = 1;
  // Instead: queries bring the terms of each row and column, see QueryRows.
  bool bias = false;
  // Instead: the source has terms of each query and key, see StreamingAttention.
  bool pair_bias = false;
  // Floats between a unit's keys, and between its values, if these are the same for all; else 0.
  std::int64_t row_stride = 0;
  // What queries, keys, values and the softmax's weights are rounded to for their products; sums,
  // scores and the softmax stay float32.
  Products products = Products::kFloat32;
};

// Where a query lies in its window.
struct Position {
  std::int32_t h = 0, w = 0;
};

// Queries of one tile: rows of input and result, and positions.
struct QueryRows {
  static constexpr std::int64_t kMax = 64;
  const float* query[kMax];
  float* out[kMax];
  Position position[kMax];
  const float* bias_h[kMax];  // (rel_height,) terms of a query, or null for zeros
  const float* bias_w[kMax];  // (rel_width,)
};

// Keys and values of a unit: packed, or rows that begin row_stride floats apart.
struct UnitKeys {
  const float* key = nullptr;
  const float* value = nullptr;
  std::int64_t row_stride = 0;
  // Terms of the queries of a block, panel by panel: (keys, nr) each, times log2(e). Or null.
  const float* pair_bias = nullptr;
};

// Tile sizes and the scratch that one thread needs.
class AttentionTiles {
 public:
  AttentionTiles(const KernelTable& kernels, const AttentionSizes& sizes);

  std::int64_t key_floats() const { return key_floats_; }      // packed keys of one unit
  std::int64_t value_floats() const { return value_floats_; }  // packed values of one unit
  std::int64_t table_floats() const { return table_h_ + table_w_; }
  std::int64_t thread_floats() const { return panels * panel_floats_ + shared_floats_; }

  // Packs both relative position tables.
  void pack_tables(float* out) const;
  // Packs keys [first, first + count) of a unit with `keys` keys; `first` is a multiple of
  // key_step.
  void pack_keys(const float* const* rows, std::int64_t first, std::int64_t count,
                 float* packed) const;
  void pack_values(const float* const* rows, std::int64_t first, std::int64_t count,
                   std::int64_t keys, float* packed) const;

  // Prepares panel `index` of a query block: packs `count` queries and their position terms.
  void begin_panel(std::int64_t index, const QueryRows& rows, std::int64_t count,
                   const float* tables, float* scratch) const;
  // Runs `count` prepared queries over all keys.
  void run(std::int64_t count, std::int64_t keys, const UnitKeys& at, float* scratch) const;
  void end_panel(std::int64_t index, QueryRows& rows, std::int64_t count, float* scratch) const;

  std::int64_t nr = 0;        // queries of a panel
  std::int64_t key_step = 0;  // keys are packed in multiples of it
  std::int64_t panels = 0;    // panels of a query block, at most

 private:
  struct Panel {
    float *query, *result, *max, *sum, *rel_h, *rel_w;
    float* pairs;  // the query in 16 bits
    float* query_scale;
  };
  // Numbers of the keys and of the values of the block after this one, of which the products of
  // each of a query block's panels fetch a part.
  struct NextBlock {
    std::int64_t keys = 0, values = 0;
    std::int64_t panels = 1, panel = 0;
  };
  Panel panel(std::int64_t index, float* scratch) const;
  void position_terms(const float* table, std::int64_t side, std::int32_t Position::* axis,
                      const QueryRows& rows, std::int64_t count, const float* query, float* scratch,
                      float* out) const;
  void given_terms(const float* const* terms, std::int64_t count, std::int64_t side,
                   float* out) const;
  void attend(const Panel& p, const UnitKeys& at, std::int64_t keys, SoftmaxColumnsArgs softmax,
              const NextBlock& next) const;
  void attend_bfloat16(const Panel& p, const UnitKeys& at, const SoftmaxColumnsArgs& softmax,
                       const NextBlock& next) const;
  void attend_int16(const Panel& p, const UnitKeys& at, const SoftmaxColumnsArgs& softmax) const;
  template <class Float>
  auto bfloat16_values(Float* packed, std::int64_t key) const;
  bool bfloat16() const { return sizes_.products == Products::kBFloat16; }
  bool int16() const { return sizes_.products == Products::kInt16; }
  std::int64_t lanes_of(std::int64_t count) const { return round_up(count, kernels_.lanes); }

  const KernelTable& kernels_;
  const AttentionSizes& sizes_;
  std::int64_t mr_ = 0;
  // Packed queries are scaled, and scores need no scale; those of bfloat16 are rounded as they are.
  float query_scale_ = 1.0F;
  std::int64_t key_block_ = 0;
  std::int64_t key_stride_ = 0;  // of rows of bfloat16
  // Floats of a panel of queries, key and value that lie in pairs, and of the values of a block of
  // keys, with the scales of integers behind them.
  std::int64_t query_words_ = 0, key_words_ = 0, value_words_ = 0, value_block_ = 0;
  float int16_limit_ = 0.0F;  // of queries and keys
  std::int64_t key_floats_ = 0, value_floats_ = 0, table_h_ = 0, table_w_ = 0;
  std::int64_t panel_floats_ = 0, shared_floats_ = 0;
};

// Runs all units of a source, which says where the rows are:
//   std::int64_t queries(unit), keys(unit);
//   void key_rows(unit, first, count, const float** keys, const float** values);
// or, of a single unit whose keys are made for packing, on a thread whose context it gets,
//   void make_key_rows(Context&, first, count, const float** keys, const float** values);
//
//   void query_rows(unit, first, count, QueryRows&);
// and, for sizes with pair_bias,
//   const float* pair_bias(unit, first);  see UnitKeys
template <class Source>
class StreamingAttention {
 public:
  StreamingAttention(Context& ctx, const AttentionSizes& sizes, const Source& source)
      : ctx_(ctx), sizes_(sizes), source_(source), tiles_(ctx.kernels, sizes) {}

  void run() {
    if (sizes_.units == 0 || sizes_.max_queries == 0) return;
    work_ =
        sizes_.units * sizes_.max_queries * sizes_.max_keys * (sizes_.head_dim + sizes_.value_dim);
    threads_ = threads_for(ctx_.num_threads, work_);
    if constexpr (kMakesKeys) ctx_.workspace.reserve_threads(threads_);
    const Workspace::Scope scratch(ctx_.workspace);
    tables_ = ctx_.workspace.array<float>(tiles_.table_floats());
    tiles_.pack_tables(tables_);
    scratch_ = ctx_.workspace.array<float>(threads_ * tiles_.thread_floats());
    in_place_ = sizes_.row_stride > 0 && sizes_.max_keys <= kKeysInPlace &&
                sizes_.products == Products::kFloat32 && sizes_.rel_h == nullptr && !sizes_.bias &&
                !sizes_.pair_bias;
    // Packed keys and values stay in the cache of the thread that packs them, when there are
    // enough units for all threads and they are small; else all units are packed first.
    if (!in_place_ && sizes_.units >= 4 * threads_ && sizes_.max_keys <= kSmallKeys) {
      run_by_unit();
    } else {
      run_by_query_block();
    }
  }

 private:
  static constexpr bool kMakesKeys =
      requires(const Source& s, Context& c, const float** p) { s.make_key_rows(c, 0, 0, p, p); };
  static constexpr std::int64_t kSmallKeys = 512;  // docs/develop/optimizations.md: work-items
  // So few keys stay in L1, and packing them costs much (docs/develop/optimizations.md:
  // keys-in-place).
  static constexpr std::int64_t kKeysInPlace = 64;
  static constexpr std::int64_t kChunk = 256;  // docs/develop/optimizations.md: work-items

  // Over `items`, one at a time, that all work is shared among: on threads_ at most, for which
  // there is scratch.
  Loop loop(std::int64_t items) const { return {ctx_.num_threads, items, 1, work_ / items}; }

  float* thread_scratch(int thread) const { return scratch_ + thread * tiles_.thread_floats(); }

  // Packs keys [first, first + count) of a unit.
  void pack(std::int64_t unit, std::int64_t first, std::int64_t count, float* key, float* value,
            int thread) const {
    const auto pack_rows = [&](std::int64_t j, std::int64_t n, const float* const* keys,
                               const float* const* values) {
      tiles_.pack_keys(keys, j, n, key);
      tiles_.pack_values(values, j, n, source_.keys(unit), value);
    };
    const std::int64_t chunk = kChunk / tiles_.key_step * tiles_.key_step;
    for (std::int64_t j = first; j < first + count; j += chunk) {
      const float* keys[kChunk];
      const float* values[kChunk];
      const std::int64_t n = std::min(chunk, first + count - j);
      if constexpr (kMakesKeys) {
        Context own{.kernels = ctx_.kernels, .workspace = ctx_.workspace.of_thread(thread)};
        const Workspace::Scope scratch(own.workspace);
        source_.make_key_rows(own, j, n, keys, values);
        pack_rows(j, n, keys, values);
      } else {
        source_.key_rows(unit, j, n, keys, values);
        pack_rows(j, n, keys, values);
      }
    }
  }

  void run_queries(std::int64_t unit, std::int64_t first, std::int64_t block, const UnitKeys& at,
                   float* scratch) const {
    const std::int64_t count = std::min(block, source_.queries(unit) - first);
    QueryRows rows;
    for (std::int64_t i = 0; i < count; i += tiles_.nr) {
      const std::int64_t n = std::min(tiles_.nr, count - i);
      source_.query_rows(unit, first + i, n, rows);
      tiles_.begin_panel(i / tiles_.nr, rows, n, tables_, scratch);
    }
    UnitKeys keys = at;
    if constexpr (requires { source_.pair_bias(unit, first); }) {
      if (sizes_.pair_bias) keys.pair_bias = source_.pair_bias(unit, first);
    }
    tiles_.run(count, source_.keys(unit), keys, scratch);
    for (std::int64_t i = 0; i < count; i += tiles_.nr) {
      const std::int64_t n = std::min(tiles_.nr, count - i);
      source_.query_rows(unit, first + i, n, rows);
      tiles_.end_panel(i / tiles_.nr, rows, n, scratch);
    }
  }

  void run_by_unit() {
    const std::int64_t size = tiles_.key_floats() + tiles_.value_floats();
    float* const packed = ctx_.workspace.array<float>(threads_ * size);
    const std::int64_t block = tiles_.nr * tiles_.panels;
    parallel_for(loop(sizes_.units), [&](std::int64_t unit, std::int64_t, int thread) {
      float* const key = packed + thread * size;
      float* const value = key + tiles_.key_floats();
      pack(unit, 0, source_.keys(unit), key, value, thread);
      for (std::int64_t i = 0; i < source_.queries(unit); i += block) {
        run_queries(unit, i, block, {key, value}, thread_scratch(thread));
      }
    });
  }

  void run_by_query_block() {
    const std::int64_t size = in_place_ ? 0 : tiles_.key_floats() + tiles_.value_floats();
    float* const packed = ctx_.workspace.array<float>(sizes_.units * size);
    if (!in_place_) pack_all(packed, size);
    // Enough blocks that a slow thread does not keep the others waiting.
    const std::int64_t queries = sizes_.units * sizes_.max_queries / (4 * threads_);
    const std::int64_t least = std::min<std::int64_t>(tiles_.panels, 2);
    const std::int64_t block = tiles_.nr * std::clamp(queries / tiles_.nr, least, tiles_.panels);
    const std::int64_t blocks = (sizes_.max_queries + block - 1) / block;
    parallel_for(loop(sizes_.units * blocks), [&](std::int64_t i, std::int64_t, int thread) {
      const std::int64_t unit = i / blocks;
      const std::int64_t first = i % blocks * block;
      if (first >= source_.queries(unit)) return;
      UnitKeys at;
      at.key = packed + unit * size;
      at.value = at.key + tiles_.key_floats();
      if constexpr (!kMakesKeys) {
        if (in_place_) {
          source_.key_rows(unit, 0, 1, &at.key, &at.value);
          at.row_stride = sizes_.row_stride;
        }
      }
      run_queries(unit, first, block, at, thread_scratch(thread));
    });
  }

  // Packs the keys and values of all units, `size` floats each.
  void pack_all(float* packed, std::int64_t size) const {
    const std::int64_t chunk = kChunk / tiles_.key_step * tiles_.key_step;
    const std::int64_t chunks = (sizes_.max_keys + chunk - 1) / chunk;
    parallel_for(loop(sizes_.units * chunks), [&](std::int64_t i, std::int64_t, int thread) {
      const std::int64_t unit = i / chunks;
      const std::int64_t first = i % chunks * chunk;
      const std::int64_t count = std::min(chunk, source_.keys(unit) - first);
      float* const key = packed + unit * size;
      if (count > 0) pack(unit, first, count, key, key + tiles_.key_floats(), thread);
    });
  }

  Context& ctx_;
  const AttentionSizes& sizes_;
  const Source& source_;
  AttentionTiles tiles_;
  std::int64_t work_ = 0;
  int threads_ = 1;
  bool in_place_ = false;  // keys and values are read from where they are
  float* tables_ = nullptr;
  float* scratch_ = nullptr;
};

}  // namespace sam_rlx
