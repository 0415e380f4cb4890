#include "ops/int8_linear.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kRowAlign = 64;  // see QuantizeRowsArgs::out_stride

// Rows of x as bytes, in the caller's scope.
struct QuantizedRows {
  std::uint8_t* bytes = nullptr;
  std::int64_t stride = 0;
  float* scale = nullptr;
  std::int32_t* zero = nullptr;
};

QuantizedRows quantize_rows(Context& ctx, ConstView x) {
  const std::int64_t rows = x.shape.rows(), cols = x.shape.last();
  QuantizedRows out;
  out.stride = round_up(cols, kRowAlign);
  const std::int64_t whole_rows = round_up(rows, ctx.kernels.int8_panels.left_rows);
  out.bytes = ctx.workspace.array<std::uint8_t>(whole_rows * out.stride);
  out.scale = ctx.workspace.array<float>(rows);
  out.zero = ctx.workspace.array<std::int32_t>(rows);
  constexpr std::int64_t kGrain = 16;  // whole panels
  parallel_for({ctx.num_threads, rows, kGrain, cols * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 ctx.kernels.quantize_rows({.rows = end - begin,
                                            .cols = cols,
                                            .x = x.data + begin * cols,
                                            .out = out.bytes + begin * out.stride,
                                            .out_stride = out.stride,
                                            .scale = out.scale + begin,
                                            .zero = out.zero + begin});
               });
  return out;
}

}  // namespace

void pack_int8(ConstView weight, PackedMatrix& result) {
  const KernelTable& kernels = *result.kernels;
  if (result.cols > kMaxInt8Depth) {
    fail<UnsupportedError>("pack_matrix: int8",
                           "at most " + std::to_string(kMaxInt8Depth) + " input features",
                           std::to_string(result.cols));
  }
  const std::int64_t rows = round_up(result.rows, kernels.gemm_nr);
  const std::int64_t stride = round_up(result.cols, kernels.int8_panels.depth);
  result.bytes = allocate_aligned(static_cast<std::size_t>(checked_multiply(rows, stride)));
  result.scales = Tensor({rows});
  result.sums.resize(static_cast<std::size_t>(rows));
  const std::int64_t k = result.cols;
  auto* const out = static_cast<std::int8_t*>(result.bytes.get());
  for_each_panel(result, [&](std::int64_t first, std::int64_t count) {
    kernels.pack_int8_weight({.n = count,
                              .k = k,
                              .weight = weight.data + first * k,
                              .out = out + first * stride,
                              .scale = result.scales.data() + first,
                              .sum = result.sums.data() + first});
  });
}

void int8_linear(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
                 View out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t m = x.shape.rows(), n = weight.rows, k = weight.cols;
  if (m == 0 || n == 0) return;
  GemmPlan plan;
  plan.threads = threads_for(ctx.num_threads, m * n * k);
  const std::int64_t mr = kernels.int8_mr;
  plan.row_block = near_rows(kernels, std::max<std::int64_t>(k, 256), mr);
  split_gemm(plan, {m, n}, {mr, kernels.gemm_nr});

  const Workspace::Scope scratch(ctx.workspace);
  const QuantizedRows rows = quantize_rows(ctx, x);
  const auto* const panels = static_cast<const std::int8_t*>(weight.bytes.get());
  parallel_for(plan.loop(ctx, m * n * k), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const GemmPlan::Task task = plan.task(i);
      Int8GemmArgs g;
      g.target = output_block(plan, task, epilogue, out.data);
      g.target.k = k;
      g.a = rows.bytes + task.row * rows.stride;
      g.a_row_stride = rows.stride;
      g.a_scale = rows.scale + task.row;
      g.a_zero = rows.zero + task.row;
      g.b = panels + task.col * round_up(k, kernels.int8_panels.depth);
      g.b_scale = weight.scales.data() + task.col;
      g.b_sum = weight.sums.data() + task.col;
      kernels.int8_gemm(g);
    }
  });
}

}  // namespace sam_rlx
