#include "ops/bfloat16_linear.h"

#include <algorithm>
#include <vector>

#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// Rows of x (rows, cols) rounded, each followed by zeros up to `stride`; there is room for whole
// blocks of rows.
std::uint16_t* round_rows(Context& ctx, ConstView x, std::int64_t stride) {
  const std::int64_t rows = x.shape.rows(), cols = x.shape.last();
  auto* const out = ctx.workspace.array<std::uint16_t>(round_up(rows, kBFloat16Rows) * stride);
  parallel_for({ctx.num_threads, rows, 16, cols * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   std::uint16_t* const position = out + row * stride;
                   ctx.kernels.round_bfloat16(x.data + row * cols, cols, position);
                   std::fill(position + cols, position + stride, std::uint16_t{0});
                 }
               });
  return out;
}

}  // namespace

void pack_bfloat16_pairs(ConstView weight, PackedMatrix& result) {
  const KernelTable& kernels = *result.kernels;
  const std::int64_t nr = kernels.gemm_nr, k = result.cols;
  const std::int64_t depth = round_up(k, kBFloat16Depth), pairs = depth / 2;
  result.bytes = allocate_aligned(static_cast<std::size_t>(round_up(result.rows, nr) * depth) *
                                  sizeof(std::uint16_t));
  auto* const out = static_cast<std::uint32_t*>(result.bytes.get());
  for_each_panel(result, [&](std::int64_t first, std::int64_t count) {
    // The rows of a panel, rounded, with zeros behind; each word is two numbers.
    std::vector<std::uint32_t> rows(static_cast<std::size_t>(nr * pairs));
    for (std::int64_t j = first; j < first + count; j += nr) {
      const std::int64_t valid = std::min(nr, first + count - j);
      if (valid < nr) std::fill(rows.begin(), rows.end(), 0U);
      for (std::int64_t i = 0; i < valid; ++i) {
        kernels.round_bfloat16(weight.data + (j + i) * k, k,
                               reinterpret_cast<std::uint16_t*>(rows.data() + i * pairs));
      }
      std::uint32_t* position = out + j * pairs;
      for (std::int64_t p = 0; p < pairs; ++p) {
        for (std::int64_t i = 0; i < nr; ++i) *position++ = rows[i * pairs + p];
      }
    }
  });
}

void bfloat16_linear(Context& ctx, ConstView x, const PackedMatrix& weight,
                     const Epilogue& epilogue, View out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t m = x.shape.rows(), n = weight.rows, k = weight.cols;
  if (m == 0 || n == 0) return;
  const std::int64_t stride = round_up(k, kBFloat16Depth);
  GemmPlan plan;
  plan.threads = threads_for(ctx.num_threads, m * n * k);
  plan.row_block = near_rows(kernels, 2 * stride, kBFloat16Rows);
  split_gemm(plan, {m, n}, {kBFloat16Rows, kernels.gemm_nr});

  const Workspace::Scope scratch(ctx.workspace);
  const std::uint16_t* const rows = round_rows(ctx, x, stride);
  const auto* const panels = static_cast<const std::uint16_t*>(weight.bytes.get());
  parallel_for(plan.loop(ctx, m * n * k), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const GemmPlan::Task task = plan.task(i);
      BFloat16GemmArgs g;
      g.target = output_block(plan, task, epilogue, out.data);
      g.target.k = k;
      g.a = rows + task.row * stride;
      g.a_row_stride = stride;
      g.b = panels + task.col * stride;
      kernels.bfloat16_gemm(g);
    }
  });
}

}  // namespace sam_rlx
