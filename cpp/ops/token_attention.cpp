#include "ops/token_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// Places of the map that are processed at once: part of the result's definition, because sums are
// made part by part, in order, whatever the number of threads.
constexpr std::int64_t kPart = 256;  // docs/optimizations.md: work-items
// So many of them get their encoding at once, and so many go through the map's attention to the
// tokens: what they need stays in L2 (docs/optimizations.md: decoder-steps). A multiple of gemm_nr.
constexpr std::int64_t kStep = 96;
// Rows of a work item when the parts are joined.
constexpr std::int64_t kJoinedRows = 8;  // docs/optimizations.md: work-items

// Rows (N, inner) that are divided among the heads.
bool has_heads(const ConstView& x, std::int64_t heads) {
  return x.shape.rank() == 2 && heads > 0 && x.shape[1] > 0 && x.shape[1] % heads == 0;
}

bool has_columns(const ConstView& x, std::int64_t columns) {
  return x.shape.rank() == 2 && x.shape[1] == columns;
}

bool is_packed(const Projection& projection, std::int64_t rows, std::int64_t cols) {
  return projection.packed != nullptr && projection.packed->rows == rows &&
         projection.packed->cols == cols;
}

// Places in whole panels: what pack_places_t makes of (places, inner).
bool is_packed_map(const KernelTable& kernels, const ConstView& x, std::int64_t places,
                   std::int64_t inner) {
  return has_columns(x, inner) && x.shape[0] == round_up(places, kernels.gemm_nr);
}

float* thread_slice(float* base, std::int64_t stride, int thread) { return base + stride * thread; }

std::int64_t panels_size(const KernelTable& kernels, std::int64_t n, std::int64_t k) {
  return round_up(n, kernels.gemm_nr) * k;
}

void add_rows(const float* a, const float* b, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

float score_scale(std::int64_t dim) { return 1.0F / std::sqrt(static_cast<float>(dim)); }

// folded (N * heads, C): row n * heads + h is tokens[n, head h] . weight[head h, :].
void fold_tokens(const KernelTable& kernels, ConstView tokens, ConstView weight, std::int64_t heads,
                 float* folded) {
  const std::int64_t n = tokens.shape[0], inner = tokens.shape[1];
  const std::int64_t channels = weight.shape[1];
  const std::int64_t dim = inner / heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    kernels.gemm({.m = n,
                  .n = channels,
                  .k = dim,
                  .a = tokens.data + h * dim,
                  .a_row_stride = inner,
                  .a_k_stride = 1,
                  .a_panel_stride = inner * kernels.gemm_mr,
                  .b = weight.data + h * dim * channels,
                  .b_k_stride = channels,
                  .b_panel_stride = kernels.gemm_nr,
                  .c = folded + h * channels,
                  .c_row_stride = heads * channels});
  }
}

// Sums of one part of the map for every folded row: largest score, sum of exponentials, and the
// sum of exponentials times places.
struct PartSums {
  float* max;    // (rows,)
  float* sum;    // (rows,)
  float* value;  // (rows, C)
};

void attend_part(const KernelTable& kernels, const TokenToMapArgs& args, const float* folded,
                 std::int64_t rows, std::int64_t begin, std::int64_t count, float* scratch,
                 const PartSums& sums) {
  const std::int64_t channels = args.keys.shape[1];
  float* const keyed = scratch;                      // (kStep, C)
  float* const scores = scratch + kStep * channels;  // (count, rows)
  const float* const places = args.keys.data + begin * channels;
  for (std::int64_t first = 0; first < count; first += kStep) {
    const std::int64_t step = std::min(kStep, count - first);
    add_rows(places + first * channels, args.key_pe.data + (begin + first) * channels,
             step * channels, keyed);
    kernels.gemm({.m = step,
                  .n = rows,
                  .k = channels,
                  .a = keyed,
                  .a_row_stride = channels,
                  .a_k_stride = 1,
                  .a_panel_stride = channels * kernels.gemm_mr,
                  .b = folded,
                  .b_k_stride = kernels.gemm_nr,
                  .b_panel_stride = kernels.gemm_nr * channels,
                  .c = scores + first * rows,
                  .c_row_stride = rows});
  }
  kernels.exp_columns(scores, count, rows, sums.max, sums.sum);
  kernels.gemm({.m = rows,
                .n = channels,
                .k = count,
                .a = scores,
                .a_row_stride = 1,
                .a_k_stride = rows,
                .a_panel_stride = kernels.gemm_mr,
                .b = places,
                .b_k_stride = channels,
                .b_panel_stride = kernels.gemm_nr,
                .c = sums.value,
                .c_row_stride = channels});
}

// Joins the parts of a row into part 0: value = softmax-weighted mean of the places.
void join_parts(const PartSums& all, std::int64_t parts, std::int64_t rows, std::int64_t channels,
                std::int64_t r) {
  float largest = all.max[r];
  for (std::int64_t p = 1; p < parts; ++p) largest = std::max(largest, all.max[p * rows + r]);
  float total = 0.0F;
  for (std::int64_t p = 0; p < parts; ++p) {
    total += all.sum[p * rows + r] * std::exp(all.max[p * rows + r] - largest);
  }
  float* const out = all.value + r * channels;
  const float first = std::exp(all.max[r] - largest) / total;
  for (std::int64_t c = 0; c < channels; ++c) out[c] *= first;
  for (std::int64_t p = 1; p < parts; ++p) {
    const float weight = std::exp(all.max[p * rows + r] - largest) / total;
    const float* const in = all.value + (p * rows + r) * channels;
    for (std::int64_t c = 0; c < channels; ++c) out[c] += weight * in[c];
  }
}

}  // namespace

void token_to_map_attention(Context& ctx, const TokenToMapArgs& args, View out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t tokens = args.query.shape[0], inner = args.query.shape[1];
  const std::int64_t dim = inner / args.num_heads;
  const std::int64_t places = args.keys.shape[0], channels = args.keys.shape[1];
  const std::int64_t rows = tokens * args.num_heads;
  SAM_RLX_DCHECK(has_heads(args.query, args.num_heads) && out.shape == args.query.shape);
  SAM_RLX_DCHECK(args.keys.shape.rank() == 2 && args.key_pe.shape == args.keys.shape);
  SAM_RLX_DCHECK(places > 0 && args.k_proj.weight.shape == (Shape{inner, channels}));
  SAM_RLX_DCHECK(is_packed(args.v_proj, inner, channels));
  if (rows == 0) return;
  const std::int64_t parts = (places + kPart - 1) / kPart;

  const Workspace::Scope scratch(ctx.workspace);
  float* const plain = ctx.workspace.array<float>(rows * channels);
  float* const folded = ctx.workspace.array<float>(panels_size(kernels, rows, channels));
  const PartSums all{ctx.workspace.array<float>(parts * rows),
                     ctx.workspace.array<float>(parts * rows),
                     ctx.workspace.array<float>(parts * rows * channels)};
  const std::int64_t slice = kStep * channels + kPart * rows;
  float* const slices = ctx.workspace.array<float>(slice * ctx.num_threads);

  // The term q . bias is the same for all places: softmax does not see it.
  const View query = ctx.workspace.floats(args.query.shape);
  const float scale = score_scale(dim);
  for (std::int64_t i = 0; i < query.numel(); ++i) query.data[i] = scale * args.query.data[i];
  fold_tokens(kernels, query, args.k_proj.weight, args.num_heads, plain);
  kernels.pack_weight(plain, channels, rows, channels, folded);

  parallel_for(ctx.num_threads, parts, 1, [&](std::int64_t part, std::int64_t, int thread) {
    const std::int64_t begin = part * kPart;
    attend_part(kernels, args, folded, rows, begin, std::min(kPart, places - begin),
                thread_slice(slices, slice, thread),
                {all.max + part * rows, all.sum + part * rows, all.value + part * rows * channels});
  });
  parallel_for(ctx.num_threads, rows, kJoinedRows,
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   join_parts(all, parts, rows, channels, r);
                 }
               });

  // Project the means with every head's weights and keep each row's own head.
  const View projected = ctx.workspace.floats({rows, inner});
  linear(ctx, ConstView(all.value, Shape{rows, channels}), *args.v_proj.packed,
         {.bias = args.v_proj.bias.data}, projected);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t h = r % args.num_heads;
    std::memcpy(out.data + (r / args.num_heads) * inner + h * dim,
                projected.data + r * inner + h * dim,
                static_cast<std::size_t>(dim) * sizeof(float));
  }
}

void pack_places_t(Context& ctx, ConstView x, Tensor& out) {
  SAM_RLX_DCHECK(x.shape.rank() == 2);
  const std::int64_t places = x.shape[0], inner = x.shape[1];
  const Shape shape{round_up(places, ctx.kernels.gemm_nr), inner};
  if (out.shape() != shape) out = Tensor(shape);
  parallel_for(ctx.num_threads, places, kPart, [&](std::int64_t begin, std::int64_t end, int) {
    ctx.kernels.pack_weight(x.data + begin * inner, inner, end - begin, inner,
                            out.data() + begin * inner);
  });
}

void token_to_projected_map_attention(Context& ctx, const ProjectedMapArgs& args, View out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t tokens = args.query.shape[0], inner = args.query.shape[1];
  const std::int64_t dim = inner / args.num_heads;
  const std::int64_t places = args.value.shape[0];
  SAM_RLX_DCHECK(has_heads(args.query, args.num_heads) && out.shape == args.query.shape);
  SAM_RLX_DCHECK(places > 0 && has_columns(args.value, inner));
  SAM_RLX_DCHECK(is_packed_map(kernels, args.key_t, places, inner));
  if (tokens == 0) return;
  const float scale = score_scale(dim);

  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t slice = tokens * places;
  float* const slices = ctx.workspace.array<float>(slice * ctx.num_threads);
  parallel_for(ctx.num_threads, args.num_heads, 1, [&](std::int64_t h, std::int64_t, int thread) {
    float* const scores = thread_slice(slices, slice, thread);  // (N, M)
    kernels.gemm({.m = tokens,
                  .n = places,
                  .k = dim,
                  .a = args.query.data + h * dim,
                  .a_row_stride = inner,
                  .a_k_stride = 1,
                  .a_panel_stride = inner * kernels.gemm_mr,
                  .b = args.key_t.data + h * dim * kernels.gemm_nr,
                  .b_k_stride = kernels.gemm_nr,
                  .b_panel_stride = kernels.gemm_nr * inner,
                  .c = scores,
                  .c_row_stride = places});
    kernels.softmax_rows(scores, tokens, places, scale);
    kernels.gemm({.m = tokens,
                  .n = dim,
                  .k = places,
                  .a = scores,
                  .a_row_stride = places,
                  .a_k_stride = 1,
                  .a_panel_stride = places * kernels.gemm_mr,
                  .b = args.value.data + h * dim,
                  .b_k_stride = inner,
                  .b_panel_stride = kernels.gemm_nr,
                  .c = out.data + h * dim,
                  .c_row_stride = inner});
  });
}

namespace {

// What the token side contributes to every place; tokens without the first one, relative to it.
struct FoldedTokens {
  const float* keys;         // packed (C, rows), rows n * heads + h; or (tokens, inner)
  const float* bias;         // (rows,), with packed keys
  const float* values;       // packed (rows, C), rows as the scores have them
  const float* first_value;  // (C,): what the first token adds
  std::int64_t tokens, rows;
};

// Scores of some places -> weights (count, rows).
void weigh_folded(const KernelTable& kernels, const MapToTokenArgs& args,
                  const FoldedTokens& folded, std::int64_t begin, std::int64_t count, float* sum,
                  float* scores) {
  const std::int64_t channels = args.query_input.shape[1];
  const float* query = args.query_input.data + begin * channels;
  if (args.query_pe) {
    add_rows(query, args.query_pe.data + begin * channels, count * channels, sum);
    query = sum;
  }
  kernels.gemm({.m = count,
                .n = folded.rows,
                .k = channels,
                .a = query,
                .a_row_stride = channels,
                .a_k_stride = 1,
                .a_panel_stride = channels * kernels.gemm_mr,
                .b = folded.keys,
                .b_k_stride = kernels.gemm_nr,
                .b_panel_stride = kernels.gemm_nr * channels,
                .c = scores,
                .c_row_stride = folded.rows,
                .column_bias = folded.bias});
  kernels.softmax_groups(scores, count, folded.tokens, args.num_heads);
}

// Scores of some places, head by head -> weights (rows, count), rows h * tokens + n.
void weigh_projected(const KernelTable& kernels, const MapToTokenArgs& args,
                     const FoldedTokens& folded, std::int64_t begin, std::int64_t count,
                     float* scores) {
  const std::int64_t inner = args.key.shape[1], dim = inner / args.num_heads;
  for (std::int64_t h = 0; h < args.num_heads; ++h) {
    kernels.gemm({.m = folded.tokens,
                  .n = count,
                  .k = dim,
                  .a = folded.keys + h * dim,
                  .a_row_stride = inner,
                  .a_k_stride = 1,
                  .a_panel_stride = inner * kernels.gemm_mr,
                  .b = args.query_t.data + begin * inner + h * dim * kernels.gemm_nr,
                  .b_k_stride = kernels.gemm_nr,
                  .b_panel_stride = kernels.gemm_nr * inner,
                  .c = scores + h * folded.tokens * count,
                  .c_row_stride = count});
  }
  kernels.softmax_groups(scores, args.num_heads, folded.tokens, count);
}

void map_part(const KernelTable& kernels, const MapToTokenArgs& args, const FoldedTokens& folded,
              std::int64_t begin, std::int64_t count, float* scratch, View keys_out) {
  const std::int64_t channels = args.keys.shape[1];
  const bool by_place = static_cast<bool>(args.query_input);
  float* const scores = scratch;
  if (by_place) {
    weigh_folded(kernels, args, folded, begin, count, scratch + kStep * folded.rows, scores);
  } else {
    weigh_projected(kernels, args, folded, begin, count, scores);
  }
  const std::int64_t row_stride = by_place ? folded.rows : 1;
  float* const out = keys_out.data + begin * channels;
  kernels.gemm({.m = count,
                .n = channels,
                .k = folded.rows,
                .a = scores,
                .a_row_stride = row_stride,
                .a_k_stride = by_place ? 1 : count,
                .a_panel_stride = row_stride * kernels.gemm_mr,
                .b = folded.values,
                .b_k_stride = kernels.gemm_nr,
                .b_panel_stride = kernels.gemm_nr * folded.rows,
                .c = out,
                .c_row_stride = channels,
                .column_bias = folded.first_value,
                .residual = args.keys.data + begin * channels,
                .residual_row_stride = channels});
  if (!args.norm_weight) return;
  kernels.layer_norm_rows(out, count, channels, args.norm_weight.data, args.norm_bias.data,
                          args.norm_eps, out);
}

// Projected tokens without the first one, relative to it, times `scale`.
View relative_tokens(Context& ctx, ConstView tokens, float scale) {
  const std::int64_t inner = tokens.shape[1];
  const View out = ctx.workspace.floats({tokens.shape[0] - 1, inner});
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out.data[i] = scale * (tokens.data[inner + i] - tokens.data[i % inner]);
  }
  return out;
}

// Rows value[n, head h] . out_proj[:, head h]^T in the order of the scores, in panels.
void fold_values(const KernelTable& kernels, const MapToTokenArgs& args, ConstView value,
                 float* values) {
  const std::int64_t tokens = value.shape[0], inner = value.shape[1], heads = args.num_heads;
  const std::int64_t channels = args.keys.shape[1], dim = inner / heads, nr = kernels.gemm_nr;
  const bool by_place = static_cast<bool>(args.query_input);
  for (std::int64_t col = 0; col < channels; col += nr) {
    float* const panel = values + col * tokens * heads;
    for (std::int64_t h = 0; h < heads; ++h) {
      kernels.gemm({.m = tokens,
                    .n = nr,
                    .k = dim,
                    .a = value.data + h * dim,
                    .a_row_stride = inner,
                    .a_k_stride = 1,
                    .a_panel_stride = inner * kernels.gemm_mr,
                    .b = args.out_proj.packed->floats() + col * inner + h * dim * nr,
                    .b_k_stride = nr,
                    .b_panel_stride = nr * inner,
                    .c = panel + (by_place ? h : h * tokens) * nr,
                    .c_row_stride = (by_place ? heads : 1) * nr});
    }
  }
}

// bias (N * heads,): row n * heads + h is key[n, head h] . bias[head h].
void fold_bias(ConstView key, ConstView bias, std::int64_t heads, float* out) {
  const std::int64_t inner = key.shape[1], dim = inner / heads;
  for (std::int64_t r = 0; r < key.shape[0] * heads; ++r) {
    const std::int64_t offset = (r % heads) * dim;
    const float* const token = key.data + (r / heads) * inner + offset;
    float dot = 0.0F;
    for (std::int64_t d = 0; d < dim; ++d) dot += token[d] * bias.data[offset + d];
    out[r] = dot;
  }
}

}  // namespace

void map_to_token_attention_norm(Context& ctx, const MapToTokenArgs& args, View keys_out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t heads = args.num_heads, inner = args.key.shape[1];
  const std::int64_t channels = args.keys.shape[1], places = args.keys.shape[0];
  const std::int64_t tokens = args.key.shape[0] - 1, rows = tokens * heads;
  SAM_RLX_DCHECK(has_heads(args.key, heads) && tokens >= 0 && args.value.shape == args.key.shape);
  SAM_RLX_DCHECK(args.keys.shape.rank() == 2 && keys_out.shape == args.keys.shape);
  SAM_RLX_DCHECK(is_packed(args.out_proj, channels, inner));
  SAM_RLX_DCHECK(args.norm_weight.data == nullptr || (args.norm_weight.numel() == channels &&
                                                      args.norm_bias.numel() == channels));
  if (args.query_input) {
    SAM_RLX_DCHECK(args.query_input.shape == args.keys.shape);
    SAM_RLX_DCHECK(!args.query_pe || args.query_pe.shape == args.keys.shape);
    SAM_RLX_DCHECK(args.q_proj.weight.shape == (Shape{inner, channels}));
    SAM_RLX_DCHECK(args.q_proj.bias.numel() == inner);
  } else {
    SAM_RLX_DCHECK(is_packed_map(kernels, args.query_t, places, inner));
  }

  const Workspace::Scope scratch(ctx.workspace);
  const View key = relative_tokens(ctx, args.key, score_scale(inner / heads));
  const View first_value = ctx.workspace.floats({1, channels});
  linear(ctx, {args.value.data, Shape{1, inner}}, *args.out_proj.packed,
         {.bias = args.out_proj.bias.data}, first_value);
  float* const values = ctx.workspace.array<float>(panels_size(kernels, channels, rows));
  fold_values(kernels, args, relative_tokens(ctx, args.value, 1.0F), values);
  FoldedTokens folded{key.data, nullptr, values, first_value.data, tokens, rows};
  if (args.query_input) {
    float* const plain = ctx.workspace.array<float>(rows * channels);
    float* const packed = ctx.workspace.array<float>(panels_size(kernels, rows, channels));
    float* const bias = ctx.workspace.array<float>(rows);
    fold_tokens(kernels, key, args.q_proj.weight, heads, plain);
    kernels.pack_weight(plain, channels, rows, channels, packed);
    fold_bias(key, args.q_proj.bias, heads, bias);
    folded.keys = packed;
    folded.bias = bias;
  }

  const std::int64_t slice = kStep * (rows + channels);
  float* const slices = ctx.workspace.array<float>(slice * ctx.num_threads);
  parallel_for(ctx.num_threads, places, kStep,
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 map_part(kernels, args, folded, begin, end - begin,
                          thread_slice(slices, slice, thread), keys_out);
               });
}

}  // namespace sam_rlx
