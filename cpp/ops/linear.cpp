#include "ops/linear.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/kernel_table.h"
#include "ops/bfloat16_linear.h"
#include "ops/block_linear.h"
#include "ops/int16_linear.h"
#include "ops/int8_linear.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {

namespace {

void pack_bfloat16(ConstView weight, PackedMatrix& result) {
  const KernelTable& kernels = *result.kernels;
  switch (kernels.reduced_products) {
    case Products::kBFloat16:
      pack_bfloat16_panels(weight, result);
      return;
    case Products::kInt16:
      pack_int16_panels(weight, result);
      return;
    case Products::kFloat32:
      break;
  }
  const std::int64_t nr = kernels.gemm_nr, k = result.cols;
  result.bytes = allocate_aligned(static_cast<std::size_t>(round_up(result.rows, nr) * k) *
                                  sizeof(std::uint16_t));
  auto* const out = static_cast<std::uint16_t*>(result.bytes.get());
  for_each_panel(result, [&](std::int64_t first, std::int64_t count) {
    Tensor panels({round_up(count, nr), k});
    kernels.pack_weight(weight.data + first * k, k, count, k, panels.data());
    kernels.round_bfloat16(panels.data(), panels.numel(), out + first * k);
  });
}

}  // namespace

const float* PackedMatrix::floats() const {
  if (format != WeightFormat::kFloat32) fail_internal("a float32 weight was expected");
  return panels.data();
}

Products PackedMatrix::products() const {
  return format == WeightFormat::kBFloat16 ? kernels->reduced_products : Products::kFloat32;
}

PackedMatrix pack_matrix(const KernelTable& kernels, ConstView weight, WeightFormat format) {
  if (weight.shape.rank() != 2) {
    fail("pack_matrix", "a matrix (out, in)", weight.shape.str());
  }
  PackedMatrix result;
  result.kernels = &kernels;
  result.format = format;
  result.rows = weight.shape[0];
  result.cols = weight.shape[1];
  switch (format) {
    case WeightFormat::kFloat32:
      result.panels = Tensor({round_up(result.rows, kernels.gemm_nr), result.cols});
      for_each_panel(result, [&](std::int64_t first, std::int64_t count) {
        kernels.pack_weight(weight.data + first * result.cols, result.cols, count, result.cols,
                            result.panels.data() + first * result.cols);
      });
      break;
    case WeightFormat::kBFloat16:
      pack_bfloat16(weight, result);
      break;
    case WeightFormat::kInt8:
      pack_int8(weight, result);
      break;
    case WeightFormat::kBlocks:
      fail_internal("pack_matrix: blocks come from a file, see pack_blocks");
  }
  return result;
}

Panels panels_of(const PackedMatrix& weight) {
  if (weight.products() != Products::kFloat32) fail_internal("products of float32 were expected");
  Panels panels{.first = 0, .count = weight.rows, .k = weight.cols, .columns = weight.rows};
  if (weight.format == WeightFormat::kBFloat16) {
    panels.halves = static_cast<const std::uint16_t*>(weight.bytes.get());
  } else {
    panels.floats = weight.floats();
  }
  return panels;
}

void multiply_packed(const KernelTable& kernels, const Panels& panels, PanelPosition position,
                     GemmArgs g, float* widened) {
  const std::int64_t nr = kernels.gemm_nr, k = panels.k,
                     first = position.col * k + position.p0 * nr;
  if (panels.floats != nullptr) {
    g.b = right_panels(kernels, panels.floats + first, k);
    kernels.gemm(g);
    return;
  }
  // Panel by panel: a widened one stays in the first-level cache for all rows of A.
  const std::int64_t cols = g.n;
  for (std::int64_t col = 0; col < cols; col += nr) {
    kernels.widen_bfloat16(panels.halves + first + col * k, g.k * nr, widened);
    g.n = std::min(nr, cols - col);
    g.b = right_panels(kernels, widened, k);
    kernels.gemm(g);
    g.c += nr;
    if (g.partial != nullptr) g.partial += nr;
    if (g.column_bias != nullptr) g.column_bias += nr;
    if (g.residual != nullptr) g.residual += nr;
  }
}

GemmActivation gemm_activation(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return kGemmRelu;
    case Activation::kGelu:
      return kGemmGelu;
    case Activation::kNone:
      break;
  }
  return kGemmNone;
}

namespace {

// Of numbers of so many bytes, in blocks of k whose lengths are multiples of `step`. A block of B
// holds as many bytes as one of floats.
struct BlockNumbers {
  std::int64_t bytes, step;
};
GemmPlan plan_blocks(const Context& ctx, GemmSize c, std::int64_t k, bool in_place,
                     BlockNumbers numbers) {
  const KernelTable& kernels = ctx.kernels;
  const std::int64_t most = kernels.gemm_kc * std::int64_t{sizeof(float)} / numbers.bytes;
  const std::int64_t k_blocks = std::max<std::int64_t>(1, (k + most - 1) / most);
  // Where two blocks are packed at once, their partial sums stay in the first-level cache.
  const bool one_block = k_blocks == 1 || (kernels.lanes > 8 && k <= 1024 && !in_place);
  GemmPlan plan;
  plan.k_block = one_block ? k : round_up((k + k_blocks - 1) / k_blocks, numbers.step);
  plan.threads = threads_for(ctx.num_threads, c.rows * c.cols * k);
  const std::int64_t row_bytes = numbers.bytes * std::max<std::int64_t>(plan.k_block, 256);
  plan.row_block = near_rows(kernels, row_bytes, kernels.gemm_mr);
  split_gemm(plan, c, {kernels.gemm_mr, kernels.gemm_nr});
  return plan;
}

}  // namespace

GemmPlan plan_gemm(const Context& ctx, std::int64_t m, std::int64_t n, std::int64_t k,
                   bool in_place) {
  return plan_blocks(ctx, {m, n}, k, in_place, {sizeof(float), 8});
}

GemmPlan plan_int16(const Context& ctx, std::int64_t m, const PackedMatrix& weight, bool in_place) {
  return plan_blocks(ctx, {m, weight.rows}, weight.cols, in_place,
                     {sizeof(std::int16_t), kInt16Depth});
}

void split_gemm(GemmPlan& plan, GemmSize c, GemmSize tile) {
  plan.c = c;
  plan.row_block = std::min(plan.row_block, round_up(c.rows, tile.rows));
  plan.col_block = round_up(c.cols, tile.cols);
  const auto count = [&] {
    plan.row_tasks = (c.rows + plan.row_block - 1) / plan.row_block;
    plan.col_tasks = (c.cols + plan.col_block - 1) / plan.col_block;
    return plan.tasks();
  };
  // Enough tasks that a slow thread does not keep the others waiting.
  while (plan.threads > 1 && count() < 4 * plan.threads) {
    if (plan.row_block > 4 * tile.rows) {
      plan.row_block = round_up(plan.row_block / 2, tile.rows);
    } else if (plan.col_block > 2 * tile.cols) {
      plan.col_block = round_up(plan.col_block / 2, tile.cols);
    } else {
      break;
    }
  }
  count();
  // As many blocks of the same size for each thread; what is left is shared out.
  const std::int64_t threads = plan.col_tasks > 1 ? 1 : plan.threads;
  const std::int64_t rounds = (plan.row_tasks + threads - 1) / threads;
  const std::int64_t tiles = (c.rows + tile.rows - 1) / tile.rows;
  const std::int64_t block = (tiles + rounds * threads - 1) / (rounds * threads);
  plan.row_block = block * tile.rows;
  plan.whole = tiles / (block * threads) * threads;
  const std::int64_t left = tiles - plan.whole * block;
  plan.last_block = (left + threads - 1) / threads * tile.rows;
  plan.row_tasks = plan.whole;
  if (left > 0) {
    const std::int64_t rows = c.rows - plan.whole * plan.row_block;
    plan.row_tasks += (rows + plan.last_block - 1) / plan.last_block;
  }
}

GemmPlan::Task GemmPlan::task(std::int64_t index) const {
  const std::int64_t block = index / col_tasks, first = std::min(block, whole);
  Task t;
  t.row = first * row_block + (block - first) * last_block;
  t.col = index % col_tasks * col_block;
  t.rows = std::min(block < whole ? row_block : last_block, c.rows - t.row);
  t.cols = std::min(col_block, c.cols - t.col);
  return t;
}

GemmArgs output_block(const GemmPlan& plan, const GemmPlan::Task& task, const Epilogue& epilogue,
                      float* out) {
  const std::int64_t stride = plan.c.cols, position = task.row * stride + task.col;
  GemmArgs g;
  g.m = task.rows;
  g.n = task.cols;
  g.c = out + position;
  g.c_row_stride = stride;
  g.column_bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + task.col;
  g.activation = gemm_activation(epilogue.activation);
  if (epilogue.residual) g.residual = epilogue.residual.data + position;
  g.residual_row_stride = stride;
  return g;
}

void linear(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
            View out) {
  if (weight.kernels != &ctx.kernels) fail_internal("linear: weight packed for another table");
  if (x.shape.rank() == 0 || x.shape.last() != weight.cols) {
    fail("linear", "last axis of " + std::to_string(weight.cols), x.shape.str());
  }
  const Shape expected = x.shape.with_last(weight.rows);
  if (out.shape != expected) fail("linear: result", expected.str(), out.shape.str());
  if (epilogue.residual && epilogue.residual.numel() != out.numel()) {
    fail("linear: residual", out.shape.str(), epilogue.residual.shape.str());
  }
  if (weight.products() == Products::kBFloat16) {
    bfloat16_linear(ctx, x, weight, epilogue, out);
    return;
  }
  switch (weight.format) {
    case WeightFormat::kFloat32:
    case WeightFormat::kBFloat16: {
      packed_gemm(ctx, x.shape.rows(), whole_rows(x.data, weight.cols), weight, epilogue, out.data);
      break;
    }
    case WeightFormat::kInt8:
      int8_linear(ctx, x, weight, epilogue, out);
      break;
    case WeightFormat::kBlocks:
      block_linear(ctx, x, weight, epilogue, out);
      break;
  }
}

}  // namespace sam_rlx
