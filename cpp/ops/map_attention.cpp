#include "ops/map_attention.h"

#include <cstdint>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/operands.h"

namespace sam_rlx {
namespace {

// What the token side contributes to every position; tokens without the first one, relative to it.
struct FoldedTokens {
  const float* keys;         // packed (C, rows), rows n * heads + h; or (tokens, inner)
  const float* bias;         // (rows,), with packed keys
  const float* values;       // packed (rows, C), rows as the scores have them
  const float* first_value;  // (C,): what the first token adds
  std::int64_t tokens, rows;
};

// Scores of some positions -> weights (count, rows).
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
                .a = left_rows(kernels, query, channels),
                .b = right_panels(kernels, folded.keys, channels),
                .c = scores,
                .c_row_stride = folded.rows,
                .column_bias = folded.bias});
  kernels.softmax_groups(scores, count, folded.tokens, args.num_heads);
}

// Scores of some positions, head by head -> weights (rows, count), rows h * tokens + n.
void weigh_projected(const KernelTable& kernels, const MapToTokenArgs& args,
                     const FoldedTokens& folded, std::int64_t begin, std::int64_t count,
                     float* scores) {
  const std::int64_t inner = args.key.shape[1], dim = inner / args.num_heads;
  for (std::int64_t h = 0; h < args.num_heads; ++h) {
    kernels.gemm(
        {.m = folded.tokens,
         .n = count,
         .k = dim,
         .a = left_rows(kernels, folded.keys + h * dim, inner),
         .b = right_panels(kernels, args.query_t.data + begin * inner + h * dim * kernels.gemm_nr,
                           inner),
         .c = scores + h * folded.tokens * count,
         .c_row_stride = count});
  }
  kernels.softmax_groups(scores, args.num_heads, folded.tokens, count);
}

void map_part(const KernelTable& kernels, const MapToTokenArgs& args, const FoldedTokens& folded,
              std::int64_t begin, std::int64_t count, float* scratch, View keys_out) {
  const std::int64_t channels = args.keys.shape[1];
  const bool by_position = static_cast<bool>(args.query_input);
  float* const scores = scratch;
  if (by_position) {
    weigh_folded(kernels, args, folded, begin, count, scratch + kFoldStep * folded.rows, scores);
  } else {
    weigh_projected(kernels, args, folded, begin, count, scores);
  }
  const float* const keys = args.keys.data + begin * channels;
  float* const out = keys_out.data + begin * channels;
  GemmArgs sum{.m = count,
               .n = channels,
               .k = folded.rows,
               .a = by_position ? left_rows(kernels, scores, folded.rows)
                                : left_columns(kernels, scores, count),
               .b = right_panels(kernels, folded.values, folded.rows),
               .c = out,
               .c_row_stride = channels,
               .column_bias = folded.first_value};
  // Of several blocks the first one writes to `out`, which may be the map: so that one adds it.
  if (folded.rows > kernels.gemm_kc) {
    sum.accumulate = true;
    sum.partial = out == keys ? nullptr : keys;
    sum.partial_row_stride = channels;
  } else {
    sum.residual = keys;
    sum.residual_row_stride = channels;
  }
  kernels.gemm(sum);
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
  const bool by_position = static_cast<bool>(args.query_input);
  for (std::int64_t col = 0; col < channels; col += nr) {
    float* const panel = values + col * tokens * heads;
    for (std::int64_t h = 0; h < heads; ++h) {
      kernels.gemm(
          {.m = tokens,
           .n = nr,
           .k = dim,
           .a = left_rows(kernels, value.data + h * dim, inner),
           .b = right_panels(kernels, args.out_proj.packed->floats() + col * inner + h * dim * nr,
                             inner),
           .c = panel + (by_position ? h : h * tokens) * nr,
           .c_row_stride = (by_position ? heads : 1) * nr});
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
  const std::int64_t channels = args.keys.shape[1], positions = args.keys.shape[0];
  const std::int64_t tokens = args.key.shape[0] - 1, rows = tokens * heads;
  SAM_RLX_DCHECK(has_heads(args.key, heads) && tokens >= 0 && args.value.shape == args.key.shape);
  SAM_RLX_DCHECK(args.keys.shape.rank() == 2 && keys_out.shape == args.keys.shape);
  SAM_RLX_DCHECK(is_packed(args.out_proj, channels, inner));
  SAM_RLX_DCHECK(args.norm_weight.data == nullptr ||
                 (args.norm_weight.numel() == channels && args.norm_bias.numel() == channels));
  if (args.query_input) {
    SAM_RLX_DCHECK(args.query_input.shape == args.keys.shape);
    SAM_RLX_DCHECK(!args.query_pe || args.query_pe.shape == args.keys.shape);
    SAM_RLX_DCHECK(args.q_proj.weight.shape == (Shape{inner, channels}));
    SAM_RLX_DCHECK(args.q_proj.bias.numel() == inner);
  } else {
    SAM_RLX_DCHECK(is_packed_map(kernels, args.query_t, positions, inner));
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

  const std::int64_t slice = kFoldStep * (rows + channels);
  float* const slices = ctx.workspace.array<float>(slice * ctx.num_threads);
  parallel_for({ctx.num_threads, positions, kFoldStep,
                2 * channels * rows + rows * kFunctionWork + 2 * channels * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 map_part(kernels, args, folded, begin, end - begin,
                          thread_slice(slices, slice, thread), keys_out);
               });
}

}  // namespace sam_rlx
