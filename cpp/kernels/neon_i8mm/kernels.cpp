#include <arm_neon.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/base.inl"
#include "kernels/neon/quantize_row.inl"
#include "kernels/bodies/row_code.inl"
#include "kernels/bodies/pack_int8.inl"
#include "kernels/neon/quantize_panels.inl"
#include "kernels/neon/pairs.inl"
#include "kernels/bodies/int8_finish.inl"
// clang-format on

constexpr int kInt8Mr = kMr;  // docs/develop/optimizations.md: arm-tile
constexpr int kDepth = 8;

// A register has eight bytes of two rows, or of two columns.
template <int R>
void multiply_int8_tile(const TileArgs& t, const sam_rlx::Int8GemmArgs& g) noexcept {
  if (t.k >= kPrefetchFrom) prefetch_tile<R, kNv>(t);
  constexpr int kRowPairs = (R + 1) / 2;
  const Index steps = (t.k + kDepth - 1) / kDepth;
  const std::uint8_t* a = g.a + t.row * g.a_row_stride;
  const std::int8_t* b = g.b + t.col * steps * kDepth;
  int32x4_t acc[kRowPairs][kColumnPairs];
  for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED {
    for_each<kColumnPairs>([&](auto j) SAM_RLX_INLINED { acc[r.value][j.value] = vdupq_n_s32(0); });
  });
  for (Index p = 0; p < steps; ++p, a += kDepth * kMr, b += kDepth * kNr) {
    uint8x16_t av[kRowPairs];
    for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED { av[r.value] = vld1q_u8(a + r.value * 16); });
    for_each<kColumnPairs>([&](auto j) SAM_RLX_INLINED {
      const int8x16_t bv = vld1q_s8(b + j.value * 16);
      for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED {
        int32x4_t& sum = acc[r.value][j.value];
        sum = vusmmlaq_s32(sum, av[r.value], bv);
      });
      keep_loads_behind();
    });
  }
  IntVec products[R][kNv];
  rows_of_blocks<R>(acc, [&](auto r, auto v, float64x2_t x) SAM_RLX_INLINED {
    products[r.value][v.value].v = vreinterpretq_s32_f64(x);
  });
  finish_int8_tile<R>(t, g, products);
}

#include "kernels/bodies/int8_tiles.inl"

}  // namespace

void sam_rlx::neon_i8mm_kernels(KernelTable& table) noexcept {
  table.name = "neon_i8mm";
  table.int8_mr = kInt8Mr;
  table.int8_panels = {kMr, kDepth};
  table.int8_flip = 0;
  table.quantize_rows = quantize_panels<kDepth, 0>;
  table.pack_int8_weight = pack_int8_weight<kDepth>;
  table.int8_gemm = int8_gemm;
}
