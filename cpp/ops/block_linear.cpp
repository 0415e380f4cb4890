#include "ops/block_linear.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "kernels/kernel_table.h"
#include "ops/packed_gemm.h"

namespace sam_rlx {
namespace {

// Numbers that are unpacked at once: 4 MB of panels (docs/develop/optimizations.md: work-items).
constexpr std::int64_t kChunk = std::int64_t{1} << 20;

// Unpacks rows [first, first + count) of a weight into panels; rows[threads][nr * k] is scratch.
struct Unpacking {
  const PackedMatrix& weight;
  std::int64_t first, count;
  int num_threads;
  float* rows;
  float* panels;
};

void unpack(const KernelTable& kernels, const Unpacking& u) {
  const std::int64_t nr = kernels.gemm_nr, k = u.weight.cols;
  const BlockRows& blocks = u.weight.blocks;
  parallel_for({u.num_threads, round_up(u.count, nr) / nr, 1, nr * k * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 float* const rows = u.rows + thread * nr * k;
                 for (std::int64_t panel = begin; panel < end; ++panel) {
                   const std::int64_t row = panel * nr, valid = std::min(nr, u.count - row);
                   unpack_blocks(blocks.format, blocks.row(u.first + row), valid * k, rows);
                   kernels.pack_weight(rows, k, valid, k, u.panels + row * k);
                 }
               });
}

}  // namespace

PackedMatrix pack_blocks(const KernelTable& kernels, BlockRows weight) {
  const BlockFacts& facts = block_facts(weight.format);
  if (weight.cols % facts.numbers != 0) {
    fail(std::string("pack_blocks: ") + facts.name,
         "rows of whole blocks of " + std::to_string(facts.numbers), std::to_string(weight.cols));
  }
  PackedMatrix result;
  result.kernels = &kernels;
  result.format = WeightFormat::kBlocks;
  result.rows = weight.rows;
  result.cols = weight.cols;
  result.blocks = std::move(weight);
  return result;
}

void block_linear(Context& ctx, ConstView x, const PackedMatrix& weight, const Epilogue& epilogue,
                  View out) {
  const std::int64_t m = x.shape.rows(), n = weight.rows, k = weight.cols;
  if (m == 0 || n == 0) return;
  const std::int64_t nr = ctx.kernels.gemm_nr;
  const std::int64_t most = std::min(round_up(n, nr), std::max(nr, kChunk / k / nr * nr));
  const int threads = threads_for(ctx.num_threads, most * k * kNumberWork);
  const Workspace::Scope scratch(ctx.workspace);
  float* const panels = ctx.workspace.array<float>(most * k);
  float* const rows = ctx.workspace.array<float>(threads * nr * k);
  for (std::int64_t first = 0; first < n; first += most) {
    const std::int64_t count = std::min(most, n - first);
    unpack(ctx.kernels, {weight, first, count, ctx.num_threads, rows, panels});
    packed_gemm(ctx, m, whole_rows(x.data, k), Panels{panels, nullptr, first, count, k, n},
                epilogue, out.data);
  }
}

}  // namespace sam_rlx
