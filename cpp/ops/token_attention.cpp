#include "ops/token_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/operands.h"

namespace sam_rlx {
namespace {

// Positions of the map that are processed at once: part of the result's definition, because sums
// are made part by part, in order, whatever the number of threads.
constexpr std::int64_t kPart = 256;  // docs/develop/optimizations.md: work-items
// Rows of a work item when the parts are joined.
constexpr std::int64_t kJoinedRows = 8;  // docs/develop/optimizations.md: work-items

// Sums of one part of the map for every folded row: largest score, sum of exponentials, and the
// sum of exponentials times positions.
struct PartSums {
  float* max;    // (rows,)
  float* sum;    // (rows,)
  float* value;  // (rows, C)
};

void attend_part(const KernelTable& kernels, const TokenToMapArgs& args, const float* folded,
                 std::int64_t rows, std::int64_t begin, std::int64_t count, float* scratch,
                 const PartSums& sums) {
  const std::int64_t channels = args.keys.shape[1];
  float* const keyed = scratch;                          // (kFoldStep, C)
  float* const scores = scratch + kFoldStep * channels;  // (count, rows)
  const float* const positions = args.keys.data + begin * channels;
  for (std::int64_t first = 0; first < count; first += kFoldStep) {
    const std::int64_t step = std::min(kFoldStep, count - first);
    add_rows(positions + first * channels, args.key_pe.data + (begin + first) * channels,
             step * channels, keyed);
    kernels.gemm({.m = step,
                  .n = rows,
                  .k = channels,
                  .a = left_rows(kernels, keyed, channels),
                  .b = right_panels(kernels, folded, channels),
                  .c = scores + first * rows,
                  .c_row_stride = rows});
  }
  kernels.exp_columns(scores, count, rows, sums.max, sums.sum);
  kernels.gemm({.m = rows,
                .n = channels,
                .k = count,
                .a = left_columns(kernels, scores, rows),
                .b = right_rows(kernels, positions, channels),
                .c = sums.value,
                .c_row_stride = channels});
}

// Joins the parts of a row into part 0: value = softmax-weighted mean of the positions.
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
  const std::int64_t positions = args.keys.shape[0], channels = args.keys.shape[1];
  const std::int64_t rows = tokens * args.num_heads;
  SAM_RLX_DCHECK(has_heads(args.query, args.num_heads) && out.shape == args.query.shape);
  SAM_RLX_DCHECK(args.keys.shape.rank() == 2 && args.key_pe.shape == args.keys.shape);
  SAM_RLX_DCHECK(positions > 0 && args.k_proj.weight.shape == (Shape{inner, channels}));
  SAM_RLX_DCHECK(is_packed(args.v_proj, inner, channels));
  if (rows == 0) return;
  const std::int64_t parts = (positions + kPart - 1) / kPart;

  const Workspace::Scope scratch(ctx.workspace);
  float* const plain = ctx.workspace.array<float>(rows * channels);
  float* const folded = ctx.workspace.array<float>(panels_size(kernels, rows, channels));
  const PartSums all{ctx.workspace.array<float>(parts * rows),
                     ctx.workspace.array<float>(parts * rows),
                     ctx.workspace.array<float>(parts * rows * channels)};
  const std::int64_t slice = kFoldStep * channels + kPart * rows;
  float* const slices = ctx.workspace.array<float>(slice * ctx.num_threads);

  // The term q . bias is the same for all positions: softmax does not see it.
  const View query = ctx.workspace.floats(args.query.shape);
  const float scale = score_scale(dim);
  for (std::int64_t i = 0; i < query.numel(); ++i) query.data[i] = scale * args.query.data[i];
  fold_tokens(kernels, query, args.k_proj.weight, args.num_heads, plain);
  kernels.pack_weight(plain, channels, rows, channels, folded);

  parallel_for({ctx.num_threads, parts, 1,
                kPart * (2 * channels * rows + rows * kFunctionWork + channels * kNumberWork)},
               [&](std::int64_t part, std::int64_t, int thread) {
                 const std::int64_t begin = part * kPart;
                 attend_part(kernels, args, folded, rows, begin, std::min(kPart, positions - begin),
                             thread_slice(slices, slice, thread),
                             {all.max + part * rows, all.sum + part * rows,
                              all.value + part * rows * channels});
               });
  parallel_for({ctx.num_threads, rows, kJoinedRows, parts * channels * kNumberWork},
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

void pack_positions_t(Context& ctx, ConstView x, Tensor& out) {
  SAM_RLX_DCHECK(x.shape.rank() == 2);
  const std::int64_t positions = x.shape[0], inner = x.shape[1];
  const Shape shape{round_up(positions, ctx.kernels.gemm_nr), inner};
  if (out.shape() != shape) out = Tensor(shape);
  const std::int64_t grain = kPart / ctx.kernels.gemm_nr * ctx.kernels.gemm_nr;
  parallel_for({ctx.num_threads, positions, grain, inner * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 ctx.kernels.pack_weight(x.data + begin * inner, inner, end - begin, inner,
                                         out.data() + begin * inner);
               });
}

void token_to_projected_map_attention(Context& ctx, const ProjectedMapArgs& args, View out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t tokens = args.query.shape[0], inner = args.query.shape[1];
  const std::int64_t dim = inner / args.num_heads;
  const std::int64_t positions = args.value.shape[0];
  SAM_RLX_DCHECK(has_heads(args.query, args.num_heads) && out.shape == args.query.shape);
  SAM_RLX_DCHECK(positions > 0 && has_columns(args.value, inner));
  SAM_RLX_DCHECK(is_packed_map(kernels, args.key_t, positions, inner));
  if (tokens == 0) return;
  const float scale = score_scale(dim);

  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t slice = tokens * positions;
  float* const slices = ctx.workspace.array<float>(slice * ctx.num_threads);
  parallel_for({ctx.num_threads, args.num_heads, 1, tokens * positions * (2 * dim + kFunctionWork)},
               [&](std::int64_t h, std::int64_t, int thread) {
                 float* const scores = thread_slice(slices, slice, thread);  // (N, M)
                 kernels.gemm({.m = tokens,
                               .n = positions,
                               .k = dim,
                               .a = left_rows(kernels, args.query.data + h * dim, inner),
                               .b = right_panels(
                                   kernels, args.key_t.data + h * dim * kernels.gemm_nr, inner),
                               .c = scores,
                               .c_row_stride = positions});
                 kernels.softmax_rows(scores, tokens, positions, scale);
                 kernels.gemm({.m = tokens,
                               .n = dim,
                               .k = positions,
                               .a = left_rows(kernels, scores, positions),
                               .b = right_rows(kernels, args.value.data + h * dim, inner),
                               .c = out.data + h * dim,
                               .c_row_stride = inner});
               });
}

}  // namespace sam_rlx
