#include "ops/attention.h"

#include <algorithm>

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
  }
};

struct PartSource {
  const PartAttentionArgs& args;
  std::int64_t num_keys;
  float* out;

  std::int64_t queries(std::int64_t) const { return args.num_queries; }
  std::int64_t keys(std::int64_t) const { return num_keys; }

  void key_rows(std::int64_t, std::int64_t first, std::int64_t count, const float** keys,
                const float** values) const {
    std::int64_t begin = 0;  // of the part, among all keys
    for (const AttentionPart& part : args.parts) {
      const std::int64_t from = std::max(first, begin);
      const std::int64_t to = std::min(first + count, begin + part.count);
      for (std::int64_t j = from; j < to; ++j) {
        keys[j - first] = part.key.data + (j - begin) * part.key.row_stride;
        values[j - first] = part.value.data + (j - begin) * part.value.row_stride;
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

// A window of a map (B, H, W, 3C). Its keys are all places, row by row; its queries are the places
// inside of the map, row by row.
struct WindowSource {
  const WindowAttentionArgs& args;
  float* out;
  std::int64_t channels, head_dim;
  std::int64_t size_h, size_w;  // of a window
  std::int64_t rows, cols;      // windows of a map

  struct Window {
    std::int64_t map, head, y, x;  // top left place
  };
  Window window(std::int64_t unit) const {
    const std::int64_t index = unit / args.num_heads;
    return {index / (rows * cols), unit % args.num_heads, index / cols % rows * size_h,
            index % cols * size_w};
  }
  std::int64_t valid_cols(const Window& w) const { return std::min(size_w, args.grid.width - w.x); }

  std::int64_t queries(std::int64_t unit) const {
    const Window w = window(unit);
    return std::min(size_h, args.grid.height - w.y) * valid_cols(w);
  }
  std::int64_t keys(std::int64_t) const { return size_h * size_w; }

  void key_rows(std::int64_t unit, std::int64_t first, std::int64_t count, const float** keys,
                const float** values) const {
    const Window w = window(unit);
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t y = w.y + (first + j) / size_w, x = w.x + (first + j) % size_w;
      const bool inside = y < args.grid.height && x < args.grid.width;
      const float* const row = inside ? place(w.map, y, x) : args.pad_qkv;
      keys[j] = row + channels + w.head * head_dim;
      values[j] = row + 2 * channels + w.head * head_dim;
    }
  }

  void query_rows(std::int64_t unit, std::int64_t first, std::int64_t count,
                  QueryRows& result) const {
    const Window w = window(unit);
    const std::int64_t width = valid_cols(w);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t h = (first + i) / width, x = (first + i) % width;
      const float* const row = place(w.map, w.y + h, w.x + x);
      result.query[i] = row + w.head * head_dim;
      result.out[i] = out + (row - args.qkv.data) / 3 + w.head * head_dim;
      result.place[i] = {static_cast<std::int32_t>(h), static_cast<std::int32_t>(x)};
    }
  }

  const float* place(std::int64_t map, std::int64_t y, std::int64_t x) const {
    return args.qkv.data + ((map * args.grid.height + y) * args.grid.width + x) * 3 * channels;
  }
};

}  // namespace

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
  const PartSource source{args, keys, out.data};
  StreamingAttention(ctx, sizes, source).run();
}

void window_attention(Context& ctx, const WindowAttentionArgs& args, View out) {
  const Shape& shape = args.qkv.shape;
  const WindowGrid& grid = args.grid;
  if (shape.rank() != 4 || shape[1] != grid.height || shape[2] != grid.width ||
      args.num_heads < 1 || shape.last() % (3 * args.num_heads) != 0) {
    fail("window_attention", "fused qkv (B, H, W, 3C) of the grid, C divisible by the heads",
         shape.str());
  }
  const std::int64_t channels = shape.last() / 3;
  if (out.shape != shape.with_last(channels)) {
    fail("window_attention: result", shape.with_last(channels).str(), out.shape.str());
  }
  if (out.numel() == 0) return;
  WindowSource source{args, out.data, channels, channels / args.num_heads, 0, 0, 0, 0};
  source.size_h = grid.size > 0 ? grid.size : grid.height;
  source.size_w = grid.size > 0 ? grid.size : grid.width;
  source.rows = (grid.height + source.size_h - 1) / source.size_h;
  source.cols = (grid.width + source.size_w - 1) / source.size_w;
  const bool divides = grid.height % source.size_h == 0 && grid.width % source.size_w == 0;
  if (!divides && args.pad_qkv == nullptr) {
    fail("window_attention", "a vector for padded places", "none");
  }
  AttentionSizes sizes;
  sizes.units = shape[0] * source.rows * source.cols * args.num_heads;
  sizes.head_dim = sizes.value_dim = source.head_dim;
  sizes.scale = args.scale;
  sizes.max_queries = std::min(source.size_h, grid.height) * std::min(source.size_w, grid.width);
  sizes.max_keys = source.size_h * source.size_w;
  if ((args.rel_pos.rel_h == nullptr) != (args.rel_pos.rel_w == nullptr)) {
    fail("window_attention", "both relative position tables or none", "one");
  }
  sizes.rel_h = args.rel_pos.rel_h;
  sizes.rel_w = args.rel_pos.rel_w;
  sizes.rel_height = source.size_h;
  sizes.rel_width = source.size_w;
  StreamingAttention(ctx, sizes, source).run();
}

}  // namespace sam_rlx
