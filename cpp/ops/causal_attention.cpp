#include "ops/causal_attention.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/operands.h"

namespace sam_rlx {
namespace {

// One head of one run.
struct Unit {
  const float *query, *key, *value;  // rows of 3C numbers
  float* out;                        // rows of C numbers
  const bool* hidden;                // of the rows, or null
  std::int64_t rows, channels, head_dim;
};

// Softmax of the scores of row i, whose first i + 1 positions it may attend to.
void attend_up_to(const KernelTable& kernels, const bool* hidden, std::int64_t i, float scale,
                  float* row) {
  constexpr float kLeast = -1e30F;
  bool any = hidden == nullptr;
  for (std::int64_t j = 0; hidden != nullptr && j <= i; ++j) {
    if (hidden[j]) row[j] = kLeast;
    any = any || !hidden[j];
  }
  kernels.softmax_rows(row, 1, i + 1, scale);
  for (std::int64_t j = 0; hidden != nullptr && j <= i; ++j) {
    if (hidden[j] || !any) row[j] = 0.0F;
  }
}

// scratch: head_dim * rows and rows * rows numbers.
void attend(const KernelTable& kernels, const Unit& unit, float scale, float* scratch) {
  const std::int64_t rows = unit.rows, stride = 3 * unit.channels;
  float* const key_t = scratch;  // (head_dim, rows)
  float* const scores = scratch + unit.head_dim * rows;
  kernels.transpose_block(unit.key, stride, rows, unit.head_dim, key_t, rows);
  kernels.gemm({.m = rows,
                .n = rows,
                .k = unit.head_dim,
                .a = left_rows(kernels, unit.query, stride),
                .b = right_rows(kernels, key_t, rows),
                .c = scores,
                .c_row_stride = rows});
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const row = scores + i * rows;
    attend_up_to(kernels, unit.hidden, i, scale, row);
    std::fill(row + i + 1, row + rows, 0.0F);
  }
  kernels.gemm({.m = rows,
                .n = unit.head_dim,
                .k = rows,
                .a = left_rows(kernels, scores, rows),
                .b = right_rows(kernels, unit.value, stride),
                .c = unit.out,
                .c_row_stride = unit.channels});
}

void check(const CausalAttentionArgs& args, View out) {
  const Shape& shape = args.qkv.shape;
  if (shape.rank() != 2 || args.num_heads < 1 || shape.last() % (3 * args.num_heads) != 0) {
    fail("causal_attention", "fused qkv (R, 3C), C divisible by the heads", shape.str());
  }
  const Shape expected{shape[0], shape.last() / 3};
  if (out.shape != expected) fail("causal_attention: result", expected.str(), out.shape.str());
  const auto& begins = args.begins;
  if (begins.empty() || begins.front() != 0 || begins.back() != shape[0] ||
      !std::is_sorted(begins.begin(), begins.end())) {
    fail("causal_attention", "runs that cover " + std::to_string(shape[0]) + " rows",
         std::to_string(begins.size()) + " ends of other runs");
  }
}

}  // namespace

void causal_attention(Context& ctx, const CausalAttentionArgs& args, View out) {
  check(args, out);
  const std::int64_t channels = out.shape.last(), head_dim = channels / args.num_heads;
  const auto runs = static_cast<std::int64_t>(args.begins.size()) - 1;
  std::int64_t longest = 0, work = 0;
  for (std::size_t i = 0; i + 1 < args.begins.size(); ++i) {
    const std::int64_t rows = args.begins[i + 1] - args.begins[i];
    longest = std::max(longest, rows);
    work += rows * rows * channels;
  }
  const int threads = threads_for(ctx.num_threads, work);
  const std::int64_t items = runs * args.num_heads;
  if (items == 0) return;
  const Workspace::Scope scratch(ctx.workspace);
  const std::int64_t size = longest * (head_dim + longest);
  float* const memory = ctx.workspace.array<float>(threads * size);
  const auto body = [&](std::int64_t i, std::int64_t, int thread) {
    const auto run = static_cast<std::size_t>(i / args.num_heads);
    const std::int64_t first = args.begins[run], rows = args.begins[run + 1] - first;
    const std::int64_t head = i % args.num_heads * head_dim;
    const float* const query = args.qkv.data + first * 3 * channels + head;
    if (rows == 0) return;
    attend(ctx.kernels,
           {.query = query,
            .key = query + channels,
            .value = query + 2 * channels,
            .out = out.data + first * channels + head,
            .hidden = args.hidden == nullptr ? nullptr : args.hidden + first,
            .rows = rows,
            .channels = channels,
            .head_dim = head_dim},
           args.scale, memory + thread * size);
  };
  parallel_for({ctx.num_threads, items, 1, work / items}, body);
}

}  // namespace sam_rlx
