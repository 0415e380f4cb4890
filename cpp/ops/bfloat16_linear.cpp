#include "ops/bfloat16_linear.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// Rows of x (rows, cols) rounded, each followed by zeros up to `stride`; there is room for whole
// blocks of rows.
std::uint16_t* round_rows(Context& ctx, ConstView x, std::int64_t stride) {
  const std::int64_t rows = x.shape.rows(), cols = x.shape.last();
  auto* const out = ctx.workspace.array<std::uint16_t>(round_up(rows, kBFloat16Rows) * stride);
  constexpr std::int64_t kGrain = 16;  // whole panels
  parallel_for({ctx.num_threads, rows, kGrain, cols * kNumberWork}, [&](std::int64_t begin,
                                                                        std::int64_t end, int) {
    const float* pointers[kGrain];
    for (std::int64_t i = begin; i < end; ++i) pointers[i - begin] = x.data + i * cols;
    ctx.kernels.pack_bfloat16_left(pointers, end - begin, cols, stride, out + begin * stride);
  });
  return out;
}

// Rows (nr, depth) of which a panel is made.
struct RoundedPanel {
  const std::uint16_t* rows;
  std::int64_t nr, depth;
  std::uint16_t* out;
};
// Numbers of a row side by side, then those of the next row: see PanelShape.
template <int Group>
void interleave(const RoundedPanel& panel) {
  std::uint16_t* position = panel.out;
  for (std::int64_t p = 0; p < panel.depth; p += Group) {
    for (std::int64_t i = 0; i < panel.nr; ++i, position += Group) {
      std::copy_n(panel.rows + i * panel.depth + p, Group, position);
    }
  }
}

}  // namespace

void pack_bfloat16_panels(ConstView weight, PackedMatrix& result) {
  const KernelTable& kernels = *result.kernels;
  const std::int64_t nr = kernels.gemm_nr, k = result.cols, group = kernels.bfloat16_panels.depth;
  if (group != 2 && group != 4) fail_internal("bfloat16_panels of depth " + std::to_string(group));
  const std::int64_t depth = round_up(k, kBFloat16Depth);
  result.bytes = allocate_aligned(static_cast<std::size_t>(round_up(result.rows, nr) * depth) *
                                  sizeof(std::uint16_t));
  auto* const out = static_cast<std::uint16_t*>(result.bytes.get());
  for_each_panel(result, [&](std::int64_t first, std::int64_t count) {
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(nr * depth));  // with zeros behind
    for (std::int64_t j = first; j < first + count; j += nr) {
      const std::int64_t valid = std::min(nr, first + count - j);
      if (valid < nr) std::fill(rows.begin(), rows.end(), std::uint16_t{0});
      for (std::int64_t i = 0; i < valid; ++i) {
        kernels.round_bfloat16(weight.data + (j + i) * k, k, rows.data() + i * depth);
      }
      const RoundedPanel panel{rows.data(), nr, depth, out + j * depth};
      if (group == 2) {
        interleave<2>(panel);
      } else {
        interleave<4>(panel);
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
  const GemmPlan plan = plan_bfloat16(ctx, m, weight);
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
