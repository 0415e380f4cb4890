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
constexpr int kDepth = 8;     // inner bytes of a row or column, two of which fill a register

template <int R>
SAM_RLX_NOINLINE void multiply_int8_tile(const TileArgs& t,
                                         const sam_rlx::Int8GemmArgs& g) noexcept {
  const Index steps = (t.k + kDepth - 1) / kDepth;
  IntVec products[R][kNv];
  multiply_blocks<R>(t, g.a + t.row * g.a_row_stride, g.b + t.col * steps * kDepth, steps, products,
                     [](int32x4_t sum, uint8x16_t a, uint8x16_t b)
                         SAM_RLX_INLINED { return vusmmlaq_s32(sum, a, vreinterpretq_s8_u8(b)); });
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
