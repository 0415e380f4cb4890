#include "ops/attention.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "ops/streaming_attention.h"

namespace sam_rlx {
namespace {

struct PlainSource {
  const AttentionArgs& args;
  float* out;

  std::int64_t queries(std::int64_t) const { return args.num_queries; }
  std::int64_t keys(std::int64_t) const { return args.num_keys; }

  void key_rows(std::int64_t unit, std::int64_t first, std::int64_t count, const float** keys,
                const float** values) const {
    const std::int64_t head = unit % args.num_heads;
    const std::int64_t row = unit / args.num_heads * args.num_keys + first;
    for (std::int64_t j = 0; j < count; ++j) {
      keys[j] = args.key.data + (row + j) * args.key.row_stride + head * args.head_dim;
      values[j] = args.value.data + (row + j) * args.value.row_stride + head * args.value_dim;
    }
  }

  void query_rows(std::int64_t unit, std::int64_t first, std::int64_t count,
                  QueryRows& rows) const {
    const std::int64_t head = unit % args.num_heads;
    const std::int64_t row = unit / args.num_heads * args.num_queries + first;
    for (std::int64_t i = 0; i < count; ++i) {
      rows.query[i] = args.query.data + (row + i) * args.query.row_stride + head * args.head_dim;
      rows.out[i] = out + ((row + i) * args.num_heads + head) * args.value_dim;
    }
    if (!args.bias.h) return;
    const std::int64_t height = args.bias.h.shape[2], width = args.bias.w.shape[2];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t biased = first + i - args.bias.first;
      const std::int64_t index = unit * args.bias.h.shape[1] + biased;
      rows.bias_h[i] = biased < 0 ? nullptr : args.bias.h.data + index * height;
      rows.bias_w[i] = biased < 0 ? nullptr : args.bias.w.data + index * width;
    }
  }
};

struct PartSource {
  const PartAttentionArgs& args;
  std::int64_t num_keys;
  float* out;

  std::int64_t queries(std::int64_t) const { return args.num_queries; }
  std::int64_t keys(std::int64_t) const { return num_keys; }

  // Keys are in the context's workspace.
  void make_key_rows(Context& ctx, std::int64_t first, std::int64_t count, const float** keys,
                     const float** values) const {
    std::int64_t begin = 0;  // of the part, among all keys
    for (std::size_t i = 0; i < args.parts.size(); ++i) {
      const AttentionPart& part = args.parts[i];
      const std::int64_t from = std::max(first, begin);
      const std::int64_t to = std::min(first + count, begin + part.count);
      if (from < to) {
        const View made = ctx.workspace.floats({to - from, args.head_dim});
        args.keys.make(ctx, i, from - begin, made);
        for (std::int64_t j = from; j < to; ++j) {
          keys[j - first] = made.data + (j - from) * args.head_dim;
          values[j - first] = part.value.data + (j - begin) * part.value.row_stride;
        }
      }
      begin += part.count;
    }
  }

  void query_rows(std::int64_t, std::int64_t first, std::int64_t count, QueryRows& rows) const {
    for (std::int64_t i = 0; i < count; ++i) {
      rows.query[i] = args.query.data + (first + i) * args.query.row_stride;
      rows.out[i] = out + (first + i) * args.value_dim;
    }
  }
};

// A window of a map (B, H, W, 3C). Its keys are all positions, row by row; its queries are the
// positions inside of the map, row by row, or those of the same part of a coarser map.
struct WindowSource {
  const WindowAttentionArgs& args;
  float* out;
  std::int64_t channels, head_dim;
  std::int64_t size_h, size_w;  // of a window
  std::int64_t rows, cols;      // windows of a map
  // The map of queries: its sides, its windows' sides, and floats between positions.
  const float* query = nullptr;
  std::int64_t query_h = 0, query_w = 0, query_size_h = 0, query_size_w = 0, query_stride = 0;

  WindowSource(const WindowAttentionArgs& arguments, View result)
      : args(arguments),
        out(result.data),
        channels(args.qkv.shape.last() / 3),
        head_dim(channels / args.num_heads),
        size_h(args.grid.size > 0 ? args.grid.size : args.grid.height),
        size_w(args.grid.size > 0 ? args.grid.size : args.grid.width),
        rows((args.grid.height + size_h - 1) / size_h),
        cols((args.grid.width + size_w - 1) / size_w),
        query(args.query ? args.query.data : args.qkv.data),
        query_h(result.shape[1]),
        query_w(result.shape[2]),
        query_size_h(size_h * query_h / args.grid.height),
        query_size_w(size_w * query_w / args.grid.width),
        query_stride(args.query ? channels : 3 * channels) {}

  std::int64_t panel_queries = 1;  // of the kernels

  // `y` and `x` count windows.
  struct Window {
    std::int64_t map, head, y, x;
  };
  Window window(std::int64_t unit) const {
    const std::int64_t index = unit / args.num_heads;
    return {index / (rows * cols), unit % args.num_heads, index / cols % rows, index % cols};
  }
  std::int64_t valid_cols(const Window& w) const {
    return std::min(query_size_w, query_w - w.x * query_size_w);
  }

  std::int64_t valid_rows(const Window& w) const {
    return std::min(query_size_h, query_h - w.y * query_size_h);
  }

  std::int64_t queries(std::int64_t unit) const {
    const Window w = window(unit);
    return valid_rows(w) * valid_cols(w);
  }
  std::int64_t keys(std::int64_t) const { return size_h * size_w; }

  const float* pair_bias(std::int64_t unit, std::int64_t first) const {
    const Window w = window(unit);
    const bool cut_h = valid_rows(w) < size_h, cut_w = valid_cols(w) < size_w;
    const std::int64_t panels = (queries(unit) + panel_queries - 1) / panel_queries;
    const std::int64_t panel = w.head * panels + first / panel_queries;
    return args.distances->packed[2 * cut_h + cut_w] + panel * keys(unit) * panel_queries;
  }

  void key_rows(std::int64_t unit, std::int64_t first, std::int64_t count, const float** keys,
                const float** values) const {
    const Window w = window(unit);
    const std::int64_t top = w.y * size_h, left = w.x * size_w;
    const float* const map =
        args.qkv.data + w.map * args.grid.height * args.grid.width * 3 * channels;
    std::int64_t h = first / size_w, x = first % size_w;
    for (std::int64_t j = 0; j < count; ++j) {
      const bool inside = top + h < args.grid.height && left + x < args.grid.width;
      const std::int64_t position = (top + h) * args.grid.width + left + x;
      const float* const row = inside ? map + position * 3 * channels
                                      : args.pad_qkv + (h * size_w + x) * args.pad_stride;
      keys[j] = row + channels + w.head * head_dim;
      values[j] = row + 2 * channels + w.head * head_dim;
      if (++x == size_w) {
        x = 0;
        ++h;
      }
    }
  }

  void query_rows(std::int64_t unit, std::int64_t first, std::int64_t count,
                  QueryRows& result) const {
    const Window w = window(unit);
    const std::int64_t width = valid_cols(w);
    const std::int64_t top = w.map * query_h + w.y * query_size_h, left = w.x * query_size_w;
    std::int64_t h = first / width, x = first % width;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t position = (top + h) * query_w + left + x;
      result.query[i] = query + position * query_stride + w.head * head_dim;
      result.out[i] = out + position * channels + w.head * head_dim;
      result.position[i] = {static_cast<std::int32_t>(h), static_cast<std::int32_t>(x)};
      if (++x == width) {
        x = 0;
        ++h;
      }
    }
  }
};

void check_window_attention(const WindowAttentionArgs& args, View out) {
  const Shape& shape = args.qkv.shape;
  const WindowGrid& grid = args.grid;
  if (shape.rank() != 4 || shape[1] != grid.height || shape[2] != grid.width ||
      args.num_heads < 1 || shape.last() % (3 * args.num_heads) != 0) {
    fail("window_attention", "fused qkv (B, H, W, 3C) of the grid, C divisible by the heads",
         shape.str());
  }
  Shape expected = shape.with_last(shape.last() / 3);
  if (args.query && args.query.shape.rank() == 4) {
    const std::int64_t step = grid.height / std::max<std::int64_t>(args.query.shape[1], 1);
    const bool whole = step > 0 && grid.height % step == 0 && grid.width % step == 0 &&
                       grid.size % step == 0 && args.rel_pos.rel_h == nullptr;
    expected[1] = whole ? grid.height / step : -1;
    expected[2] = whole ? grid.width / step : -1;
  }
  if (args.query && args.query.shape != expected) {
    fail("window_attention: queries", "a map (B, H / s, W / s, C) whose s divides the windows",
         args.query.shape.str());
  }
  if (out.shape != expected) {
    fail("window_attention: result", expected.str(), out.shape.str());
  }
  if ((args.rel_pos.rel_h == nullptr) != (args.rel_pos.rel_w == nullptr)) {
    fail("window_attention", "both relative position tables or none", "one");
  }
  if (args.distances == nullptr) return;
  const DistanceTerms& terms = *args.distances;
  const Shape expected_table{args.num_heads, grid.size > 0 ? grid.size : grid.height,
                             grid.size > 0 ? grid.size : grid.width};
  const Shape table{terms.num_heads, terms.height, terms.width};
  const std::int64_t cut_h = grid.height % table[1], cut_w = grid.width % table[2];
  if (table != expected_table || args.query || args.rel_pos.rel_h != nullptr ||
      (cut_h > 0 && cut_h != terms.cut_height) || (cut_w > 0 && cut_w != terms.cut_width)) {
    fail("window_attention: distances",
         "terms " + expected_table.str() + " alone, packed for this grid, and queries of its map",
         table.str());
  }
}

// Integers are packed in steps that floats do not need, and pay off for so many queries only
// (docs/develop/optimizations.md: int16-attention).
Products worthwhile(Products products, const AttentionSizes& sizes) {
  constexpr std::int64_t kFewQueries = 32;
  const bool few = products == Products::kInt16 && sizes.max_queries < kFewQueries;
  return few ? Products::kFloat32 : products;
}

void check_map_bias(const AttentionArgs& args) {
  const MapBias& bias = args.bias;
  const std::int64_t units = args.batch * args.num_heads, queries = args.num_queries - bias.first;
  if (bias.first < 0 || queries < 0 || bias.h.shape.rank() != 3 || bias.w.shape.rank() != 3 ||
      bias.h.shape != Shape{units, queries, bias.h.shape[2]} ||
      bias.w.shape != Shape{units, queries, bias.w.shape[2]} ||
      bias.h.shape[2] * bias.w.shape[2] != args.num_keys) {
    fail("attention: bias",
         "terms (" + std::to_string(units) + ", " + std::to_string(queries) +
             ", side) of a map with " + std::to_string(args.num_keys) + " positions",
         bias.h.shape.str() + " and " + bias.w.shape.str());
  }
}

}  // namespace

DistanceTerms pack_distances(Context& ctx, ConstView table, const WindowGrid& grid) {
  if (table.shape.rank() != 3 || table.numel() < 1) {
    fail("pack_distances", "a table (heads, height, width)", table.shape.str());
  }
  const std::int64_t heads = table.shape[0], height = table.shape[1], width = table.shape[2];
  const std::int64_t nr = ctx.kernels.gemm_nr, keys = height * width, line = 2 * width - 1;
  DistanceTerms terms{.num_heads = heads, .height = height, .width = width};
  terms.cut_height = grid.height % height;
  terms.cut_width = grid.width % width;
  const auto rows_of = [&](int kind) { return kind / 2 > 0 ? terms.cut_height : height; };
  const auto cols_of = [&](int kind) { return kind % 2 > 0 ? terms.cut_width : width; };
  const auto panels_of_kind = [&](int kind) {
    return (rows_of(kind) * cols_of(kind) + nr - 1) / nr;
  };
  float* packed[4] = {};
  for (int kind = 0; kind < 4; ++kind) {
    packed[kind] = ctx.workspace.array<float>(heads * panels_of_kind(kind) * keys * nr);
    terms.packed[kind] = packed[kind];
  }
  // Those of a query for a row of keys are a run of the numbers of one row of the table, mirrored.
  const Workspace::Scope scratch(ctx.workspace);
  float* const mirrored = ctx.workspace.array<float>(heads * height * line);
  for (std::int64_t i = 0; i < heads * height; ++i) {
    for (std::int64_t j = 0; j < line; ++j) {
      mirrored[i * line + j] = table.data[i * width + std::abs(j - width + 1)];
    }
  }
  for (int kind = 0; kind < 4; ++kind) {
    const std::int64_t panels = panels_of_kind(kind), cols = cols_of(kind);
    const std::int64_t queries = rows_of(kind) * cols;
    parallel_for({ctx.num_threads, heads * panels, 1, keys * nr * kNumberWork},
                 [&](std::int64_t i, std::int64_t, int) {
                   const float* const lines = mirrored + i / panels * height * line;
                   const std::int64_t first = i % panels * nr;
                   for (std::int64_t h = 0; h < height; ++h) {
                     const float* at[QueryRows::kMax] = {};
                     for (std::int64_t q = first; q < std::min(first + nr, queries); ++q) {
                       at[q - first] = lines + std::abs(h - q / cols) * line + width - 1 - q % cols;
                     }
                     ctx.kernels.pack_b_rows(at, width, kLog2E,
                                             packed[kind] + (i * height + h) * width * nr);
                   }
                 });
  }
  return terms;
}

void attention(Context& ctx, const AttentionArgs& args, View out) {
  const Shape expected{args.batch, args.num_queries, args.num_heads * args.value_dim};
  if (out.shape != expected) fail("attention: result", expected.str(), out.shape.str());
  if (args.num_keys < 1) fail("attention", "at least one key", std::to_string(args.num_keys));
  AttentionSizes sizes;
  sizes.units = args.batch * args.num_heads;
  sizes.head_dim = args.head_dim;
  sizes.value_dim = args.value_dim;
  sizes.scale = args.scale;
  sizes.max_queries = args.num_queries;
  sizes.max_keys = args.num_keys;
  sizes.products = worthwhile(args.products, sizes);
  if (args.bias.h) {
    check_map_bias(args);
    sizes.bias = true;
    sizes.rel_height = args.bias.h.shape[2];
    sizes.rel_width = args.bias.w.shape[2];
  }
  const PlainSource source{args, out.data};
  StreamingAttention(ctx, sizes, source).run();
}

void attention_to_parts(Context& ctx, const PartAttentionArgs& args, View out) {
  const Shape expected{args.num_queries, args.value_dim};
  if (out.shape != expected) fail("attention_to_parts: result", expected.str(), out.shape.str());
  std::int64_t keys = 0;
  for (const AttentionPart& part : args.parts) keys += part.count;
  if (keys < 1) fail("attention_to_parts", "at least one key", std::to_string(keys));
  AttentionSizes sizes;
  sizes.units = 1;
  sizes.head_dim = args.head_dim;
  sizes.value_dim = args.value_dim;
  sizes.scale = args.scale;
  sizes.max_queries = args.num_queries;
  sizes.max_keys = keys;
  sizes.products = worthwhile(args.products, sizes);
  const PartSource source{args, keys, out.data};
  StreamingAttention(ctx, sizes, source).run();
}

void window_attention(Context& ctx, const WindowAttentionArgs& args, View out) {
  check_window_attention(args, out);
  if (out.numel() == 0) return;
  const WindowGrid& grid = args.grid;
  WindowSource source(args, out);
  const bool divides = grid.height % source.size_h == 0 && grid.width % source.size_w == 0;
  if (!divides && args.pad_qkv == nullptr) {
    fail("window_attention", "a vector for padded positions", "none");
  }
  AttentionSizes sizes;
  sizes.units = out.shape[0] * source.rows * source.cols * args.num_heads;
  sizes.head_dim = sizes.value_dim = source.head_dim;
  sizes.scale = args.scale;
  sizes.max_queries =
      std::min(source.query_size_h, source.query_h) * std::min(source.query_size_w, source.query_w);
  sizes.max_keys = source.size_h * source.size_w;
  sizes.rel_h = args.rel_pos.rel_h;
  sizes.rel_w = args.rel_pos.rel_w;
  sizes.rel_height = source.size_h;
  sizes.rel_width = source.size_w;
  if (args.distances != nullptr) {
    source.panel_queries = ctx.kernels.gemm_nr;
    sizes.pair_bias = true;
    sizes.rel_height = 1;
    sizes.rel_width = sizes.max_keys;
  }
  // Whole windows, one above the other: a window's positions are in order.
  if (divides && source.size_w == grid.width) sizes.row_stride = 3 * source.channels;
  sizes.products = worthwhile(args.products, sizes);
  StreamingAttention(ctx, sizes, source).run();
}

}  // namespace sam_rlx
