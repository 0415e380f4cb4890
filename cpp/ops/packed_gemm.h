#pragma once

#include <algorithm>
#include <cstdint>

#include "core/context.h"
#include "core/cores.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"
#include "ops/linear.h"
#include "ops/operands.h"

namespace sam_rlx {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Rows of A that stay near while B goes by: whole tiles, at least one.
inline std::int64_t near_rows(const KernelTable& kernels, std::int64_t row_bytes,
                              std::int64_t tile_rows) {
  return std::max(tile_rows, kernels.block_bytes / row_bytes / tile_rows * tile_rows);
}

struct GemmSize {
  std::int64_t rows = 0, cols = 0;
};

// Packs a weight with `rows` output features panel by panel, on the cores that this process may
// use: body(first, count) packs some whole panels, of the rows [first, first + count).
template <class Body>
void for_each_panel(const PackedMatrix& weight, const Body& body) {
  const std::int64_t nr = weight.kernels->gemm_nr;
  const std::int64_t work = nr * weight.cols * kNumberWork, panels = (weight.rows + nr - 1) / nr;
  parallel_for({loading_threads(work * panels), panels, 1, work},
               [&](std::int64_t begin, std::int64_t end, int) {
                 body(begin * nr, std::min(end * nr, weight.rows) - begin * nr);
               });
}

// How a product (m, n) is cut into tasks. Sizes are multiples of the register tile. Every number of
// C is summed in the same order whatever the cut, so the cut may depend on the thread count.
struct GemmPlan {
  int threads = 1;
  GemmSize c;
  std::int64_t row_block = 0, col_block = 0, k_block = 0;
  // After `whole` blocks of rows the others are smaller: threads end at about the same time.
  std::int64_t whole = 0, last_block = 0;
  std::int64_t row_tasks = 0, col_tasks = 0;

  struct Task {
    std::int64_t row = 0, col = 0, rows = 0, cols = 0;
  };
  std::int64_t tasks() const { return row_tasks * col_tasks; }
  Task task(std::int64_t index) const;
  // Over the tasks, one at a time, that are `work` together: on plan.threads at most, for which
  // there is scratch.
  Loop loop(const Context& ctx, std::int64_t work) const {
    return {ctx.num_threads, tasks(), 1, work / tasks()};
  }
};
// `in_place`: C holds the residual, so partial sums must lie elsewhere.
GemmPlan plan_gemm(const Context& ctx, std::int64_t m, std::int64_t n, std::int64_t k,
                   bool in_place);

// The same for a weight of integers of 16 bits.
GemmPlan plan_int16(const Context& ctx, std::int64_t m, const PackedMatrix& weight, bool in_place);

// Cuts C into row blocks of at most plan.row_block rows, and smaller ones until plan.threads
// threads have enough to do.
void split_gemm(GemmPlan& plan, GemmSize c, GemmSize tile);

// The part of C that a task of a plan makes in one step, with the epilogue.
GemmArgs output_block(const GemmPlan& plan, const GemmPlan::Task& task, const Epilogue& epilogue,
                      float* out);

// Panels of a weight with k inner indices, columns [first, first + count) of a result that has
// `columns`: float32, or else bfloat16.
struct Panels {
  const float* floats = nullptr;
  const std::uint16_t* halves = nullptr;
  std::int64_t first = 0, count = 0, k = 0, columns = 0;
};
// All columns of a weight of either format.
Panels panels_of(const PackedMatrix& weight);

// Where a block of panels begins: column (a multiple of the tile's) and inner index.
struct PanelPosition {
  std::int64_t col = 0, p0 = 0;
};
// kernels.gemm with the block of the panels that fits g. `widened` has room for g.k rows of a
// panel, unless they are float32.
void multiply_packed(const KernelTable& kernels, const Panels& panels, PanelPosition position,
                     GemmArgs g, float* widened);

GemmActivation gemm_activation(Activation activation);

// The rows of A come in `count` segments of `length` numbers each: k = count * length. row(i) is
// what all segments of row i have in common: at(row(i), segment) points to one, or is null for
// zeros.
template <class Row, class At>
struct RowSegments {
  RowSegments(std::int64_t segments, std::int64_t numbers, Row row_of, At at_of)
      : count(segments), length(numbers), row(row_of), at(at_of) {}

  std::int64_t count;
  std::int64_t length;
  Row row;
  At at;
  // The first row, if they are whole and lie one behind the other.
  const float* matrix = nullptr;
};

// The rows of a matrix with `length` columns.
inline auto whole_rows(const float* matrix, std::int64_t length) {
  const auto row = [=](std::int64_t i) { return matrix + i * length; };
  const auto same = [](const float* start, std::int64_t) { return start; };
  RowSegments rows{1, length, row, same};
  rows.matrix = matrix;
  return rows;
}

constexpr std::int64_t kMaxMr = 64;

// Packs rows [row, row + rows), inner indices [p0, p0 + k), into panels of mr rows.
template <class Row, class At>
void pack_segments(const KernelTable& kernels, const RowSegments<Row, At>& source, std::int64_t row,
                   std::int64_t rows, std::int64_t p0, std::int64_t k, float* out) {
  const std::int64_t mr = kernels.gemm_mr;
  for (std::int64_t i = 0; i < rows; i += mr, out += k * mr) {
    const std::int64_t valid = std::min(mr, rows - i);
    decltype(source.row(row)) starts[kMaxMr];
    for (std::int64_t r = 0; r < valid; ++r) starts[r] = source.row(row + i + r);
    for (std::int64_t p = p0; p < p0 + k;) {
      const std::int64_t segment = p / source.length;
      const std::int64_t offset = p - segment * source.length;
      const std::int64_t step = std::min(source.length - offset, p0 + k - p);
      const float* pointers[kMaxMr] = {};
      for (std::int64_t r = 0; r < valid; ++r) {
        const float* const start = source.at(starts[r], segment);
        pointers[r] = start == nullptr ? nullptr : start + offset;
      }
      kernels.pack_a_rows(pointers, step, out + (p - p0) * mr);
      p += step;
    }
  }
}

// Whether a product with n columns reads the rows of A, k numbers each, where they are. Packing a
// row takes as long as its products with nine columns; a tile that reads rows where they are
// takes 1 to 3 % longer, and more where they do not stay in the first-level cache meanwhile.
// docs/develop/optimizations.md: rows-in-place.
constexpr bool reads_rows_in_place(std::int64_t n, std::int64_t k) { return n <= 256 && k <= 768; }

// Rows [row, row + rows), inner indices [p0, p0 + k): packed, or else where they are.
template <class Row, class At>
LeftOperand left_operand(const KernelTable& kernels, const RowSegments<Row, At>& source,
                         std::int64_t row, std::int64_t rows, std::int64_t p0, std::int64_t k,
                         float* packed) {
  if (packed == nullptr) {
    return left_rows(kernels, source.matrix + row * source.length + p0, source.length);
  }
  pack_segments(kernels, source, row, rows, p0, k, packed);
  return left_panels(kernels, packed, k);
}

// Columns [first, first + columns) of a result whose rows are `stride` numbers apart.
struct ColumnsOf {
  float* out = nullptr;
  std::int64_t first = 0, stride = 0;
};

// What a task of a plan makes of its blocks of the k inner numbers, in order: step(g, p0)
// multiplies those of [p0, p0 + g.k). The blocks before the last leave partial sums in C, or in
// `partial` unless it is null, and the last one has the epilogue.
template <class Step>
void each_k_block(const GemmPlan& plan, const GemmPlan::Task& task, std::int64_t k,
                  const Epilogue& epilogue, const ColumnsOf& result, float* partial, Step step) {
  const std::int64_t col = result.first + task.col, position = task.row * result.stride + col;
  GemmArgs g;
  g.m = task.rows;
  g.n = task.cols;
  for (std::int64_t p0 = 0; p0 < k; p0 += plan.k_block) {
    g.k = std::min(plan.k_block, k - p0);
    const bool last = p0 + g.k == k, outside = partial != nullptr && !last;
    g.accumulate = p0 > 0;
    g.c = outside ? partial : result.out + position;
    g.c_row_stride = outside ? plan.col_block : result.stride;
    if (last) {
      g.partial = partial;
      g.partial_row_stride = plan.col_block;
      g.column_bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + col;
      g.activation = gemm_activation(epilogue.activation);
      if (epilogue.residual) g.residual = epilogue.residual.data + position;
      g.residual_row_stride = result.stride;
    }
    step(g, p0);
  }
}

// out (m, columns) = activation(A W^T + bias) + residual, in the columns of the panels.
template <class Row, class At>
void packed_gemm(Context& ctx, std::int64_t m, const RowSegments<Row, At>& source,
                 const Panels& weight, const Epilogue& epilogue, float* out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t n = weight.count, k = weight.k, stride = weight.columns;
  if (m == 0 || n == 0) return;
  const bool in_place = epilogue.residual.data == out;
  const GemmPlan plan = plan_gemm(ctx, m, n, k, in_place);
  // The blocks of k before the last leave partial sums in C, unless C still holds the residual.
  const bool partial_outside = plan.k_block < k && in_place;
  const Workspace::Scope scratch(ctx.workspace);
  const bool in_rows = source.matrix != nullptr && reads_rows_in_place(n, k);
  if (in_rows && out < source.matrix + m * k && source.matrix < out + m * stride) {
    fail_internal("packed_gemm: the result overlaps the input");
  }
  const std::int64_t pack_size = in_rows ? 0 : plan.row_block * plan.k_block;
  const std::int64_t partial_size = partial_outside ? plan.row_block * plan.col_block : 0;
  const std::int64_t widened_size = weight.floats != nullptr ? 0 : plan.k_block * kernels.gemm_nr;
  const std::int64_t thread_size = pack_size + partial_size + widened_size;
  float* const buffers = ctx.workspace.array<float>(plan.threads * thread_size);

  const auto task = [&](std::int64_t index, int thread) {
    float* const packed = buffers + thread * thread_size;
    const GemmPlan::Task t = plan.task(index);
    float* const partial = partial_outside ? packed + pack_size : nullptr;
    each_k_block(
        plan, t, k, epilogue, {out, weight.first, stride}, partial,
        [&](GemmArgs g, std::int64_t p0) {
          g.a = left_operand(kernels, source, t.row, t.rows, p0, g.k, in_rows ? nullptr : packed);
          multiply_packed(kernels, weight, {t.col, p0}, g, packed + pack_size + partial_size);
        });
  };
  parallel_for(plan.loop(ctx, m * n * k), [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) task(i, thread);
  });
}

// Rounds rows [row, row + rows) and packs them for bfloat16_gemm, each in round_up(k,
// kBFloat16Depth) numbers. Several segments are multiples of kBFloat16Depth.
template <class Row, class At>
void pack_bfloat16_segments(const KernelTable& kernels, const RowSegments<Row, At>& source,
                            std::int64_t row, std::int64_t rows, std::uint16_t* out) {
  constexpr std::int64_t kStep = 32;
  const std::int64_t panel_rows = kernels.bfloat16_panels.left_rows;
  const std::int64_t stride = round_up(source.count * source.length, kBFloat16Depth);
  for (std::int64_t i = 0; i < rows; i += kStep, out += kStep * stride) {
    const std::int64_t valid = std::min(kStep, rows - i);
    decltype(source.row(row)) starts[kStep];
    for (std::int64_t r = 0; r < valid; ++r) starts[r] = source.row(row + i + r);
    for (std::int64_t segment = 0; segment < source.count; ++segment) {
      const float* pointers[kStep];
      for (std::int64_t r = 0; r < valid; ++r) pointers[r] = source.at(starts[r], segment);
      kernels.pack_bfloat16_left(pointers, valid, source.length, stride,
                                 out + segment * source.length * panel_rows);
    }
  }
}

// Blocks of rows of whole tiles, for a weight of such numbers.
inline GemmPlan plan_bfloat16(const Context& ctx, std::int64_t m, const PackedMatrix& weight) {
  GemmPlan plan;
  plan.threads = threads_for(ctx.num_threads, m * weight.rows * weight.cols);
  plan.row_block = near_rows(ctx.kernels, 2 * round_up(weight.cols, kBFloat16Depth), kBFloat16Rows);
  split_gemm(plan, {m, weight.rows}, {kBFloat16Rows, ctx.kernels.gemm_nr});
  return plan;
}

// packed_gemm for such a weight: a task packs its rows.
template <class Row, class At>
void packed_bfloat16_gemm(Context& ctx, std::int64_t m, const RowSegments<Row, At>& source,
                          const PackedMatrix& weight, const Epilogue& epilogue, float* out) {
  if (m == 0 || weight.rows == 0) return;
  const GemmPlan plan = plan_bfloat16(ctx, m, weight);
  const std::int64_t stride = round_up(weight.cols, kBFloat16Depth);
  const std::int64_t size = round_up(plan.row_block, kBFloat16Rows) * stride;
  const auto* const panels = static_cast<const std::uint16_t*>(weight.bytes.get());
  const Workspace::Scope scratch(ctx.workspace);
  auto* const buffers = ctx.workspace.array<std::uint16_t>(plan.threads * size);
  parallel_for(plan.loop(ctx, m * weight.rows * weight.cols),
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const GemmPlan::Task task = plan.task(i);
                   std::uint16_t* const packed = buffers + thread * size;
                   pack_bfloat16_segments(ctx.kernels, source, task.row, task.rows, packed);
                   BFloat16GemmArgs g;
                   g.target = output_block(plan, task, epilogue, out);
                   g.target.k = weight.cols;
                   g.a = packed;
                   g.a_row_stride = stride;
                   g.b = panels + task.col * stride;
                   ctx.kernels.bfloat16_gemm(g);
                 }
               });
}

// Rows of A as integers of 16 bits, packed for int16_gemm: a block of inner numbers.
struct Int16Rows {
  std::int16_t* numbers = nullptr;
  float* scale = nullptr;
  float* gathered = nullptr;  // a panel of rows of several segments
};

// Room for `rows` of k inner numbers in each of so many threads, in the caller's scope.
inline const Int16Rows* int16_rows(Context& ctx, std::int64_t rows, std::int64_t k, int threads) {
  const std::int64_t mr = ctx.kernels.gemm_mr, whole = round_up(rows, mr);
  auto* const out = ctx.workspace.array<Int16Rows>(threads);
  std::generate_n(out, threads, [&] {
    return Int16Rows{.numbers = ctx.workspace.array<std::int16_t>(whole * round_up(k, 2)),
                     .scale = ctx.workspace.array<float>(whole),
                     .gathered = ctx.workspace.array<float>(mr * k)};
  });
  return out;
}

// Packs rows [row, row + rows), inner indices [p0, p0 + k).
template <class Row, class At>
void pack_int16_segments(const KernelTable& kernels, const RowSegments<Row, At>& source,
                         std::int64_t row, std::int64_t rows, std::int64_t p0, std::int64_t k,
                         const Int16Rows& out) {
  const std::int64_t mr = kernels.gemm_mr, length = source.length;
  for (std::int64_t i = 0; i < rows; i += mr) {
    const std::int64_t valid = std::min(mr, rows - i);
    const float* pointers[kMaxMr];
    for (std::int64_t r = 0; r < valid; ++r) {
      if (source.matrix != nullptr) {
        pointers[r] = source.matrix + (row + i + r) * length + p0;
        continue;
      }
      const auto start = source.row(row + i + r);
      float* to = out.gathered + r * k;
      pointers[r] = to;
      for (std::int64_t p = p0; p < p0 + k;) {
        const std::int64_t offset = p % length, step = std::min(length - offset, p0 + k - p);
        const float* const from = source.at(start, p / length);
        if (from == nullptr) {
          std::fill_n(to, step, 0.0F);
        } else {
          std::copy_n(from + offset, step, to);
        }
        to += step;
        p += step;
      }
    }
    kernels.pack_int16_left(pointers, valid, k, kInt16Left, out.numbers + i * round_up(k, 2),
                            out.scale + i);
  }
}

// packed_gemm for a weight of such numbers. A row has a scale in each block of k.
template <class Row, class At>
void packed_int16_gemm(Context& ctx, std::int64_t m, const RowSegments<Row, At>& source,
                       const PackedMatrix& weight, const Epilogue& epilogue, float* out) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t n = weight.rows, k = weight.cols, depth = round_up(k, 2);
  if (m == 0 || n == 0) return;
  const bool in_place = epilogue.residual.data == out;
  const GemmPlan plan = plan_int16(ctx, m, weight, in_place);
  const bool partial_outside = plan.k_block < k && in_place;
  const std::int64_t partial_size = partial_outside ? plan.row_block * plan.col_block : 0;
  const Workspace::Scope scratch(ctx.workspace);
  const Int16Rows* const packed = int16_rows(ctx, plan.row_block, plan.k_block, plan.threads);
  float* const partials = ctx.workspace.array<float>(plan.threads * partial_size);
  const auto* const panels = static_cast<const std::int16_t*>(weight.bytes.get());
  parallel_for(plan.loop(ctx, m * n * k), [&](std::int64_t begin, std::int64_t end, int thread) {
    const Int16Rows& rows = packed[thread];
    float* const partial = partial_outside ? partials + thread * partial_size : nullptr;
    for (std::int64_t i = begin; i < end; ++i) {
      const GemmPlan::Task t = plan.task(i);
      each_k_block(
          plan, t, k, epilogue, {out, 0, n}, partial, [&](const GemmArgs& g, std::int64_t p0) {
            pack_int16_segments(kernels, source, t.row, t.rows, p0, g.k, rows);
            const std::int16_t* const b = panels + t.col * depth + p0 * kernels.gemm_nr;
            kernels.int16_gemm({g, rows.numbers, rows.scale, b, k, weight.scales.data() + t.col});
          });
    }
  });
}

// packed_gemm with all columns of a weight, whatever it multiplies.
template <class Row, class At>
void packed_gemm(Context& ctx, std::int64_t m, const RowSegments<Row, At>& source,
                 const PackedMatrix& weight, const Epilogue& epilogue, float* out) {
  switch (weight.products()) {
    case Products::kBFloat16:
      return packed_bfloat16_gemm(ctx, m, source, weight, epilogue, out);
    case Products::kInt16:
      return packed_int16_gemm(ctx, m, source, weight, epilogue, out);
    case Products::kFloat32:
      return packed_gemm(ctx, m, source, panels_of(weight), epilogue, out);
  }
}

}  // namespace sam_rlx
