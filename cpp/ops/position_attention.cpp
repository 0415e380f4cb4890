#include "ops/position_attention.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"
#include "ops/streaming_attention.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kMaxNr = 64;

}  // namespace

// ---------------------------------------------------------------- packing

PositionProjection pack_position_projection(const KernelTable& kernels, ConstView weight,
                                            ConstView bias, const CenteredAngles& angles) {
  const std::int64_t channels = weight.shape[0], inputs = weight.shape[1], mr = kernels.gemm_mr;
  const std::int64_t depth = inputs + 1, pairs = channels / 4;
  Tensor extended({channels, depth});
  std::vector<const float*> rows;
  for (std::int64_t r = 0; r < channels; ++r) {
    rows.push_back(extended.data() + r * depth);
    std::copy_n(weight.data + r * inputs, inputs, extended.data() + r * depth);
    extended.data()[r * depth + inputs] = bias.data[r];
  }
  // Channels are quarters: real parts of columns and rows, then imaginary parts.
  const auto pair_weights = [&](std::int64_t quarter) {
    Tensor out({depth, 2, pairs});
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      const std::int64_t part = i / pairs % 2, r = (2 * part + quarter) * pairs + i % pairs;
      out.data()[i] = extended.data()[r * depth + i / (2 * pairs)];
    }
    return out;
  };
  const auto left_operand = [&](ConstView table) {
    Tensor packed({round_up(table.shape[0], mr), pairs});
    for (std::int64_t i = 0; i < table.shape[0]; i += mr) {
      const float* pointers[kMaxNr] = {};
      for (std::int64_t r = 0; r < std::min(mr, table.shape[0] - i); ++r) {
        pointers[r] = table.data + (i + r) * pairs;
      }
      kernels.pack_a_rows(pointers, pairs, packed.data() + i * pairs);
    }
    return packed;
  };
  Tensor all({round_up(depth, mr), channels});
  kernels.pack_a_columns(rows.data(), channels, depth, all.data(), channels * mr);
  return {.inputs = inputs,
          .side = angles.side,
          .column = pair_weights(0),
          .row = pair_weights(1),
          .all = std::move(all),
          .cos = left_operand(angles.cos),
          .sin = left_operand(angles.sin),
          .center_cos = Tensor::copy_of(angles.center_cos),
          .center_sin = Tensor::copy_of(angles.center_sin)};
}

namespace {

// Keys of all maps on a row of positions, channels before maps.
void pack_map_keys(std::span<const PositionMap> maps, std::int64_t inputs, std::int64_t first,
                   std::int64_t positions, float* out) {
  const auto count = static_cast<std::int64_t>(maps.size());
  for (std::int64_t p = first; p < first + positions; ++p, out += (inputs + 1) * count) {
    for (std::int64_t t = 0; t < count; ++t) {
      const PositionMap& map = maps[static_cast<std::size_t>(t)];
      const float* const feature = map.features.data + p * inputs;
      const float* const pos = map.pos.data + p * inputs;
      for (std::int64_t k = 0; k < inputs; ++k) {
        const float time = map.tpos ? map.tpos.data[k] : 0.0F;
        out[k * count + t] = feature[k] + pos[k] + time;
      }
      out[inputs * count + t] = 1.0F;
    }
  }
}

void pack_tokens(Context& ctx, ConstView tokens, ConstView token_pos, PackedPositions& result) {
  const std::int64_t mr = ctx.kernels.gemm_mr, count = tokens.shape[0], inputs = tokens.shape[1];
  const std::int64_t depth = inputs + 1;
  float* const keys = ctx.workspace.array<float>(round_up(count, mr) * depth);
  float* const values = ctx.workspace.array<float>(round_up(inputs, mr) * count);
  const auto** const columns = ctx.workspace.array<const float*>(count);
  float* const rows = ctx.workspace.array<float>(mr * depth);
  for (std::int64_t j = 0; j < count; j += mr) {
    const float* pointers[kMaxNr] = {};
    for (std::int64_t r = 0; r < std::min(mr, count - j); ++r) {
      const float* const token = tokens.data + (j + r) * inputs;
      for (std::int64_t k = 0; k < inputs; ++k) {
        rows[r * depth + k] = token[k] + (token_pos ? token_pos.data[(j + r) * inputs + k] : 0.0F);
      }
      rows[r * depth + inputs] = 1.0F;
      pointers[r] = rows + r * depth;
      columns[j + r] = token;
    }
    ctx.kernels.pack_a_rows(pointers, depth, keys + j * depth);
  }
  ctx.kernels.pack_a_columns(columns, count, inputs, values, count * mr);
  result.tokens = count;
  result.token_keys = keys;
  result.token_values = values;
}

}  // namespace

PackedPositions pack_positions(Context& ctx, std::int64_t side, std::span<const PositionMap> maps,
                               ConstView tokens, ConstView token_pos) {
  PackedPositions result{.side = side, .maps = static_cast<std::int64_t>(maps.size())};
  const ConstView example = maps.empty() ? tokens : maps.front().features;
  result.inputs = example.shape[1];
  const Shape expected{side * side, result.inputs};
  for (const PositionMap& map : maps) {
    if (map.features.shape != expected || map.pos.numel() != expected.numel()) {
      fail("pack_positions", "maps and encodings " + expected.str(),
           map.features.shape.str() + " and " + map.pos.shape.str());
    }
  }
  const std::int64_t row_keys = side * result.maps, mr = ctx.kernels.gemm_mr;
  const std::int64_t key_size = row_keys * (result.inputs + 1);
  const std::int64_t value_size = row_keys * round_up(result.inputs, mr);
  float* const keys = ctx.workspace.array<float>(side * key_size);
  float* const values = ctx.workspace.array<float>(side * value_size);
  const auto** const columns = ctx.workspace.array<const float*>(row_keys * side);
  parallel_for({ctx.num_threads, side, 1, key_size * kNumberWork},
               [&](std::int64_t y, std::int64_t, int) {
                 pack_map_keys(maps, result.inputs, y * side, side, keys + y * key_size);
                 const float** const row = columns + y * row_keys;
                 for (std::int64_t j = 0; j < row_keys; ++j) {
                   const PositionMap& map = maps[static_cast<std::size_t>(j % result.maps)];
                   row[j] = map.features.data + (y * side + j / result.maps) * result.inputs;
                 }
                 ctx.kernels.pack_a_columns(row, row_keys, result.inputs, values + y * value_size,
                                            row_keys * mr);
               });
  result.map_keys = keys;
  result.map_values = values;
  if (tokens && tokens.numel() > 0) pack_tokens(ctx, tokens, token_pos, result);
  return result;
}

// ---------------------------------------------------------------- attention

namespace {

// One panel of nr queries; numbers of a query are in one lane.
class QueryPanel {
 public:
  QueryPanel(const KernelTable& kernels, const PositionAttentionArgs& args)
      : kernels_(kernels),
        args_(args),
        nr_(kernels.gemm_nr),
        mr_(kernels.gemm_mr),
        depth_(args.projection.inputs + 1),
        channels_(args.query.shape[1]) {}

  // Numbers of scratch that a thread needs.
  std::int64_t floats() const {
    const PackedPositions& p = args_.positions;
    const std::int64_t keys = std::max(p.side * p.maps, p.tokens), pairs = channels_ / 4;
    return nr_ * (6 * pairs + depth_ * (2 * pairs + 2 * mr_ + p.side + 3) + keys + 1);
  }

  void run(std::int64_t first, std::int64_t count, float* scratch, View out);

 private:
  void set_up(std::int64_t first, std::int64_t count, float* scratch);
  void make_products(const Tensor& weight, std::int64_t quarter);
  void sum_products(const Tensor& angles, std::int64_t first, std::int64_t count,
                    const float* products, float* sums);
  void combine(std::int64_t index, float sign, float* table) const;
  void attend_to_row(std::int64_t y);
  void attend_to_maps();
  void attend_to_tokens();
  void attend(std::int64_t keys, const float* values);

  const KernelTable& kernels_;
  const PositionAttentionArgs& args_;
  std::int64_t nr_, mr_, depth_, channels_, columns_ = 0, done_ = 0;
  float *query_ = nullptr, *centered_ = nullptr, *even_ = nullptr, *odd_ = nullptr;
  float *cosines_ = nullptr, *sines_ = nullptr, *column_ = nullptr, *row_ = nullptr;
  float *sum_ = nullptr, *scores_ = nullptr, *result_ = nullptr, *max_ = nullptr, *total_ = nullptr;
};

void QueryPanel::set_up(std::int64_t first, std::int64_t count, float* scratch) {
  const PackedPositions& p = args_.positions;
  const std::int64_t pairs = channels_ / 4;
  const auto take = [&](std::int64_t rows) {
    float* const taken = scratch;
    scratch += rows * nr_;
    return taken;
  };
  query_ = take(channels_);
  centered_ = take(2 * pairs);
  even_ = take(depth_ * pairs);
  odd_ = take(depth_ * pairs);
  cosines_ = take(depth_ * mr_);
  sines_ = take(depth_ * mr_);
  column_ = take(depth_ * p.side);
  row_ = take(depth_);
  sum_ = take(depth_);
  scores_ = take(std::max(p.side * p.maps, p.tokens));
  result_ = take(depth_ - 1);
  max_ = take(1);
  total_ = take(1);
  columns_ = round_up(count, kernels_.lanes);
  done_ = 0;
  const float* rows[kMaxNr] = {};
  for (std::int64_t i = 0; i < count; ++i) rows[i] = args_.query.data + (first + i) * channels_;
  kernels_.pack_b_rows(rows, channels_, args_.scale * kLog2E, query_);
  std::fill_n(max_, nr_, -std::numeric_limits<float>::infinity());
  std::fill_n(total_, nr_, 0.0F);
}

// Products of the pairs of columns (quarter 0) or rows (quarter 1), turned back to the centre.
void QueryPanel::make_products(const Tensor& weight, std::int64_t quarter) {
  const std::int64_t pairs = channels_ / 4;
  const float* const cos = args_.projection.center_cos.data();
  const float* const sin = args_.projection.center_sin.data();
  for (std::int64_t j = 0; j < pairs; ++j) {
    const float* const re = query_ + (quarter * pairs + j) * nr_;
    const float* const im = re + 2 * pairs * nr_;
    float* const to_re = centered_ + j * nr_;
    float* const to_im = to_re + pairs * nr_;
    for (std::int64_t i = 0; i < nr_; ++i) {
      to_re[i] = re[i] * cos[j] + im[i] * sin[j];
      to_im[i] = im[i] * cos[j] - re[i] * sin[j];
    }
  }
  kernels_.pair_products({.weight = weight.data(),
                          .query = centered_,
                          .even = even_,
                          .odd = odd_,
                          .depth = depth_,
                          .pairs = pairs});
}

// sums (count, depth, nr): products weighted with the angles of some distances; `first` is a
// multiple of mr.
void QueryPanel::sum_products(const Tensor& angles, std::int64_t first, std::int64_t count,
                              const float* products, float* sums) {
  const std::int64_t pairs = channels_ / 4;
  kernels_.gemm({.m = count,
                 .n = depth_ * nr_,
                 .k = pairs,
                 .a = left_panels(kernels_, angles.data() + first * pairs, pairs),
                 .b = right_panels(kernels_, products, pairs),
                 .c = sums,
                 .c_row_stride = depth_ * nr_});
}

// What the queries make of the position at a distance to one side of the centre.
void QueryPanel::combine(std::int64_t index, float sign, float* table) const {
  const float* const cosines = cosines_ + index * depth_ * nr_;
  const float* const sines = sines_ + index * depth_ * nr_;
  for (std::int64_t i = 0; i < depth_ * nr_; ++i) table[i] = cosines[i] + sign * sines[i];
}

// A step over the scores of so many keys, and the values that belong to them.
void QueryPanel::attend(std::int64_t keys, const float* values) {
  kernels_.attend_columns({.softmax = {.scores = scores_,
                                       .keys = keys,
                                       .columns = columns_,
                                       .first_key = done_,
                                       .running_max = max_,
                                       .running_sum = total_,
                                       .result = result_,
                                       .value_dim = args_.projection.inputs},
                           .values = values,
                           .value_stride = keys * mr_});
  done_ += keys;
}

void QueryPanel::attend_to_row(std::int64_t y) {
  const PackedPositions& p = args_.positions;
  const std::int64_t keys = p.side * p.maps;
  kernels_.position_scores({.keys = p.map_keys + y * keys * depth_,
                            .column = column_,
                            .row = row_,
                            .sum = sum_,
                            .scores = scores_,
                            .positions = p.side,
                            .depth = depth_,
                            .maps = p.maps});
  attend(keys, p.map_values + y * keys * round_up(p.inputs, mr_));
}

void QueryPanel::attend_to_maps() {
  const PositionProjection& projection = args_.projection;
  const std::int64_t side = args_.positions.side, distances = (side + 1) / 2;
  const auto for_each_position = [&](const Tensor& weight, std::int64_t quarter, auto visit) {
    make_products(weight, quarter);
    for (std::int64_t first = 0; first < distances; first += mr_) {
      const std::int64_t count = std::min(mr_, distances - first);
      sum_products(projection.cos, first, count, even_, cosines_);
      sum_products(projection.sin, first, count, odd_, sines_);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t after = side / 2 + first + i, before = (side - 1) / 2 - first - i;
        visit(after, i, 1.0F);
        if (before != after) visit(before, i, -1.0F);
      }
    }
  };
  for_each_position(projection.column, 0, [&](std::int64_t x, std::int64_t index, float sign) {
    combine(index, sign, column_ + x * depth_ * nr_);
  });
  for_each_position(projection.row, 1, [&](std::int64_t y, std::int64_t index, float sign) {
    combine(index, sign, row_);
    attend_to_row(y);
  });
}

void QueryPanel::attend_to_tokens() {
  const PackedPositions& p = args_.positions;
  kernels_.gemm({.m = depth_,
                 .n = nr_,
                 .k = channels_,
                 .a = left_panels(kernels_, args_.projection.all.data(), channels_),
                 .b = right_panels(kernels_, query_, channels_),
                 .c = row_,
                 .c_row_stride = nr_});
  kernels_.gemm({.m = p.tokens,
                 .n = nr_,
                 .k = depth_,
                 .a = left_panels(kernels_, p.token_keys, depth_),
                 .b = right_panels(kernels_, row_, depth_),
                 .c = scores_,
                 .c_row_stride = nr_});
  attend(p.tokens, p.token_values);
}

void QueryPanel::run(std::int64_t first, std::int64_t count, float* scratch, View out) {
  set_up(first, count, scratch);
  if (args_.positions.maps > 0) attend_to_maps();
  if (args_.positions.tokens > 0) attend_to_tokens();
  float* rows[kMaxNr] = {};
  for (std::int64_t i = 0; i < count; ++i) rows[i] = out[first + i].data;
  kernels_.unpack_columns(result_, total_, count, args_.positions.inputs, rows);
}

}  // namespace

void position_attention(Context& ctx, const PositionAttentionArgs& args, View out) {
  const std::int64_t queries = args.query.shape[0];
  const Shape expected{queries, args.projection.inputs};
  if (out.shape != expected) fail("position_attention: result", expected.str(), out.shape.str());
  if (args.positions.side != args.projection.side) {
    fail("position_attention", "maps of side " + std::to_string(args.projection.side),
         std::to_string(args.positions.side));
  }
  if (args.positions.maps + args.positions.tokens < 1)
    fail("position_attention", "at least one key", "0");
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t size = QueryPanel(ctx.kernels, args).floats();
  float* const buffers = ctx.workspace.array<float>(size * std::max(1, ctx.num_threads));
  const std::int64_t nr = ctx.kernels.gemm_nr;
  parallel_for(ctx.num_threads, queries, nr, [&](std::int64_t begin, std::int64_t end, int thread) {
    QueryPanel panel(ctx.kernels, args);
    panel.run(begin, end - begin, buffers + thread * size, out);
  });
}

}  // namespace sam_rlx
