#include <arm_neon.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/base.inl"
#include "kernels/neon/quantize_row.inl"
#include "kernels/bodies/row_code.inl"
#include "kernels/neon/quantize_panels.inl"
#include "kernels/bodies/int8_finish.inl"
// clang-format on

constexpr int kInt8Mr = kMr;  // docs/develop/optimizations.md: arm-tile
// SDOT takes signed bytes alone: those of A come as byte - 128.
constexpr int kFlip = 128;

// Lane r of a register of A has four bytes of row r, lane j of one of B four of column j.
template <int R>
SAM_RLX_NOINLINE void multiply_int8_tile(const TileArgs& t,
                                         const sam_rlx::Int8GemmArgs& g) noexcept {
  if (t.k >= kPrefetchFrom) prefetch_tile<R, kNv>(t);
  constexpr int kDepth = 4, kQuads = (R + 3) / 4;
  const Index steps = (t.k + kDepth - 1) / kDepth;
  const auto* a = reinterpret_cast<const std::int8_t*>(g.a) + t.row * g.a_row_stride;
  const std::int8_t* b = g.b + t.col * steps * kDepth;
  IntVec acc[R][kNv];
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED { acc[r.value][v.value] = int_zero(); });
  });
  for (Index p = 0; p < steps; ++p, a += kDepth * kMr, b += kDepth * kNr) {
    int8x16_t av[kQuads], bv[kNv];
    for_each<kQuads>([&](auto i) SAM_RLX_INLINED { av[i.value] = vld1q_s8(a + i.value * 16); });
    for_each<kNv>([&](auto v) SAM_RLX_INLINED { bv[v.value] = vld1q_s8(b + v.value * 16); });
    for_each<R>([&](auto r) SAM_RLX_INLINED {
      for_each<kNv>([&](auto v) SAM_RLX_INLINED {
        constexpr int kLane = r.value % 4;
        IntVec& sum = acc[r.value][v.value];
        sum.v = vdotq_laneq_s32(sum.v, bv[v.value], av[r.value / 4], kLane);
      });
    });
  }
  finish_int8_tile<R, kFlip>(t, g, acc);
}

#include "kernels/bodies/int8_tiles.inl"

}  // namespace

void sam_rlx::neon_dotprod_kernels(KernelTable& table) noexcept {
  table.name = "neon_dotprod";
  table.int8_mr = kInt8Mr;
  table.int8_panels = {kMr, 4};
  table.int8_flip = kFlip;
  table.quantize_rows = quantize_panels<4, kFlip>;
  table.int8_gemm = int8_gemm;
}
