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

// The largest integer of angles and of what they are multiplied with.
float angle_limit(std::int64_t pairs) {
  return static_cast<float>(int16_limit(std::min<std::int64_t>(pairs, kInt16Depth)));
}

struct AnglePanels {
  Tensor panels, scale;
};
AnglePanels pack_angles(const KernelTable& kernels, ConstView table, Products products) {
  const std::int64_t count = table.shape[0], pairs = table.shape[1], mr = kernels.gemm_mr;
  const std::int64_t rows = round_up(count, mr);
  std::vector<const float*> pointers(static_cast<std::size_t>(rows), nullptr);
  for (std::int64_t i = 0; i < count; ++i) pointers[static_cast<std::size_t>(i)] = table[i].data;
  if (products == Products::kInt16) {
    AnglePanels packed{Tensor({rows, (pairs + 1) / 2}), Tensor({rows})};
    kernels.pack_int16_left(pointers.data(), count, pairs, angle_limit(pairs),
                            reinterpret_cast<std::int16_t*>(packed.panels.data()),
                            packed.scale.data());
    return packed;
  }
  AnglePanels packed{Tensor({rows, pairs}), {}};
  for (std::int64_t i = 0; i < count; i += mr) {
    kernels.pack_a_rows(pointers.data() + i, pairs, packed.panels.data() + i * pairs);
  }
  return packed;
}

}  // namespace

// ---------------------------------------------------------------- packing

PositionProjection pack_position_projection(const KernelTable& kernels, ConstView weight,
                                            ConstView bias, const CenteredAngles& angles,
                                            Products products) {
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
  Tensor all({round_up(depth, mr), channels});
  kernels.pack_a_columns(rows.data(), channels, depth, all.data(), channels * mr);
  AnglePanels cos = pack_angles(kernels, angles.cos, products);
  AnglePanels sin = pack_angles(kernels, angles.sin, products);
  return {.inputs = inputs,
          .side = angles.side,
          .column = pair_weights(0),
          .row = pair_weights(1),
          .all = std::move(all),
          .products = products,
          .cos = std::move(cos.panels),
          .sin = std::move(sin.panels),
          .cos_scale = std::move(cos.scale),
          .sin_scale = std::move(sin.scale),
          .center_cos = Tensor::copy_of(angles.center_cos),
          .center_sin = Tensor::copy_of(angles.center_sin)};
}

// ---------------------------------------------------------------- attention

namespace {

// One panel of nr queries; numbers of a query are in one lane.
class QueryPanel {
 public:
  QueryPanel(const KernelTable& kernels, const PositionAttentionArgs& args)
      : kernels_(kernels),
        args_(args),
        int16_(args.positions.products == Products::kInt16),
        nr_(kernels.gemm_nr),
        mr_(kernels.gemm_mr),
        depth_(args.projection.inputs + 1),
        table_rows_(int16_ ? round_up(depth_, 2) : depth_),
        channels_(args.query.shape[1]) {}

  // Numbers of scratch that a thread needs.
  std::int64_t floats() const {
    const std::int64_t pairs = channels_ / 4, side = args_.positions.side;
    return nr_ * (6 * pairs + depth_ * (2 * pairs + 2 * mr_ + 4) + table_rows_ * (2 * side + 2) +
                  args_.positions.block_keys() + 3);
  }

  void run(std::int64_t first, std::int64_t count, float* scratch, View out);

 private:
  void set_up(std::int64_t first, std::int64_t count, float* scratch);
  void make_products(const Tensor& weight, std::int64_t quarter);
  void sum_products(const Tensor& angles, const Tensor& scale, std::int64_t first,
                    std::int64_t count, const float* products, float* sums);
  void combine(std::int64_t index, float sign, float* table) const;
  void make_table(const Tensor& weight, std::int64_t quarter, float* table);
  void make_integers(float* x, std::int64_t rows);
  float* product_scale(const float* products) const {
    return products == even_ ? even_scale_ : odd_scale_;
  }
  float* table_at(std::int64_t position) const;
  void score(const float* column, const float* row, const KeyBlock& block);
  void attend(const KeyBlock& block);
  void attend_to_maps();
  void attend_to_tokens();

  const KernelTable& kernels_;
  const PositionAttentionArgs& args_;
  bool int16_;
  std::int64_t nr_, mr_, depth_, table_rows_, channels_, columns_ = 0, done_ = 0;
  float *query_ = nullptr, *centered_ = nullptr, *even_ = nullptr, *odd_ = nullptr;
  float *even_scale_ = nullptr, *odd_scale_ = nullptr;  // of integers
  float *cosines_ = nullptr, *sines_ = nullptr, *sum_ = nullptr;
  float *unturned_ = nullptr, *zeros_ = nullptr;  // what the queries make of tokens, and no more
  float* table_ = nullptr;  // what the queries make of each column, then of each row
  float *scores_ = nullptr, *result_ = nullptr, *max_ = nullptr, *total_ = nullptr;
  float* query_scale_ = nullptr;  // of integers
};

void QueryPanel::set_up(std::int64_t first, std::int64_t count, float* scratch) {
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
  even_scale_ = take(depth_);
  odd_scale_ = take(depth_);
  cosines_ = take(depth_ * mr_);
  sines_ = take(depth_ * mr_);
  sum_ = take(depth_);
  unturned_ = take(table_rows_);
  zeros_ = take(table_rows_);
  table_ = take(table_rows_ * 2 * args_.positions.side);
  scores_ = take(args_.positions.block_keys());
  result_ = take(depth_ - 1);
  max_ = take(1);
  total_ = take(1);
  query_scale_ = take(1);
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
  if (!int16_) return;
  for (float* const products : {even_, odd_}) {
    for (std::int64_t k = 0; k < depth_; ++k) {
      float* const panel = products + k * pairs * nr_;  // its words stay where it begins
      kernels_.pack_int16_rows(panel, pairs, angle_limit(pairs),
                               reinterpret_cast<std::int16_t*>(panel),
                               product_scale(products) + k * nr_);
    }
  }
}

// sums (count, depth, nr): products weighted with the angles of some distances; `first` is a
// multiple of mr.
void QueryPanel::sum_products(const Tensor& angles, const Tensor& scale, std::int64_t first,
                              std::int64_t count, const float* products, float* sums) {
  const std::int64_t pairs = channels_ / 4;
  GemmArgs target{.m = count,
                  .n = depth_ * nr_,
                  .k = pairs,
                  .a = {},
                  .b = {},
                  .c = sums,
                  .c_row_stride = depth_ * nr_};
  if (int16_) {
    const float* const a = angles.data() + first * ((pairs + 1) / 2);
    kernels_.int16_gemm({.target = target,
                         .a = reinterpret_cast<const std::int16_t*>(a),
                         .a_scale = scale.data() + first,
                         .b = reinterpret_cast<const std::int16_t*>(products),
                         .b_stride = 2 * pairs,
                         .b_scale = product_scale(products)});
    return;
  }
  target.a = left_panels(kernels_, angles.data() + first * pairs, pairs);
  target.b = right_panels(kernels_, products, pairs);
  kernels_.gemm(target);
}

// What the queries make of the position at a distance to one side of the centre.
void QueryPanel::combine(std::int64_t index, float sign, float* table) const {
  const float* const cosines = cosines_ + index * depth_ * nr_;
  const float* const sines = sines_ + index * depth_ * nr_;
  for (std::int64_t i = 0; i < depth_ * nr_; ++i) table[i] = cosines[i] + sign * sines[i];
}

// What the queries make of each position of a side.
void QueryPanel::make_table(const Tensor& weight, std::int64_t quarter, float* table) {
  const PositionProjection& projection = args_.projection;
  const std::int64_t side = args_.positions.side, distances = (side + 1) / 2;
  const auto put = [&](std::int64_t position, std::int64_t index, float sign) {
    float* const at = table + position * table_rows_ * nr_;
    combine(index, sign, at);
    std::fill(at + depth_ * nr_, at + table_rows_ * nr_, 0.0F);
  };
  make_products(weight, quarter);
  for (std::int64_t first = 0; first < distances; first += mr_) {
    const std::int64_t count = std::min(mr_, distances - first);
    sum_products(projection.cos, projection.cos_scale, first, count, even_, cosines_);
    sum_products(projection.sin, projection.sin_scale, first, count, odd_, sines_);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t after = side / 2 + first + i, before = (side - 1) / 2 - first - i;
      put(after, i, 1.0F);
      if (before != after) put(before, i, -1.0F);
    }
  }
}

// Two numbers of a query in each word, in place. The sum of two of them is within the limit.
void QueryPanel::make_integers(float* x, std::int64_t rows) {
  kernels_.pack_int16_rows(x, rows, static_cast<float>(int16_limit(depth_) / 2),
                           reinterpret_cast<std::int16_t*>(x), query_scale_);
}

float* QueryPanel::table_at(std::int64_t position) const {
  return table_ + position * args_.positions.key_floats() * nr_;
}

void QueryPanel::score(const float* column, const float* row, const KeyBlock& block) {
  if (int16_) {
    kernels_.position_scores_int16({.keys = reinterpret_cast<const std::int16_t*>(block.keys),
                                    .key_scale = block.key_scale,
                                    .column = reinterpret_cast<const std::int16_t*>(column),
                                    .row = reinterpret_cast<const std::int16_t*>(row),
                                    .query_scale = query_scale_,
                                    .scores = scores_,
                                    .positions = block.positions,
                                    .depth = depth_,
                                    .maps = block.maps});
    return;
  }
  kernels_.position_scores({.keys = block.keys,
                            .column = column,
                            .row = row,
                            .sum = sum_,
                            .scores = scores_,
                            .positions = block.positions,
                            .depth = depth_,
                            .maps = block.maps});
}

// A step over the scores of a block of keys, and the values that belong to them.
void QueryPanel::attend(const KeyBlock& block) {
  const SoftmaxColumnsArgs softmax{.scores = scores_,
                                   .keys = block.count(),
                                   .columns = columns_,
                                   .first_key = done_,
                                   .running_max = max_,
                                   .running_sum = total_,
                                   .result = result_,
                                   .value_dim = args_.projection.inputs};
  done_ += block.count();
  if (int16_) {
    kernels_.attend_int16({.softmax = softmax,
                           .values = reinterpret_cast<const std::int16_t*>(block.values),
                           .value_scale = block.value_scale});
  } else {
    kernels_.attend_columns(
        {.softmax = softmax, .values = block.values, .value_stride = block.count() * mr_});
  }
}

void QueryPanel::attend_to_maps() {
  const PackedPositions& p = args_.positions;
  make_table(args_.projection.column, 0, table_);
  make_table(args_.projection.row, 1, table_ + p.side * table_rows_ * nr_);
  if (int16_) make_integers(table_, 2 * p.side * table_rows_);
  for (std::int64_t y = 0; y < p.side; ++y) {
    for (std::int64_t i = 0; i < p.row_blocks(); ++i) {
      const KeyBlock block = p.map_block(y, i);
      score(table_at(i * p.block_positions), table_at(p.side + y), block);
      attend(block);
    }
  }
}

void QueryPanel::attend_to_tokens() {
  const PackedPositions& p = args_.positions;
  kernels_.gemm({.m = depth_,
                 .n = nr_,
                 .k = channels_,
                 .a = left_panels(kernels_, args_.projection.all.data(), channels_),
                 .b = right_panels(kernels_, query_, channels_),
                 .c = unturned_,
                 .c_row_stride = nr_});
  if (int16_) make_integers(unturned_, depth_);
  std::fill_n(zeros_, table_rows_ * nr_, 0.0F);
  for (std::int64_t i = 0; i < p.all_token_blocks(); ++i) {
    const KeyBlock block = p.token_block(i);
    score(unturned_, zeros_, block);
    attend(block);
  }
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
  if (args.projection.products != args.positions.products) {
    fail("position_attention", "a projection packed for the products of its keys", "another");
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
