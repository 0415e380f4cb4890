#include <immintrin.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/avx512/base.inl"
#include "kernels/bodies/softmax_columns.inl"
#include "kernels/avx512/softmax_bfloat16.inl"
// clang-format on

constexpr int kRows = 8;  // docs/develop/optimizations.md: register-tile
static_assert(sam_rlx::kBFloat16Rows % kRows == 0, "blocks of A are whole tiles");

// Pairs of bfloat16 numbers, one for each lane.
SAM_RLX_INLINE __m512bh load_pairs(const std::uint16_t* p) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
}
SAM_RLX_INLINE __m512bh set1_pair(const std::uint16_t* p) {
  return reinterpret_cast<__m512bh>(_mm512_broadcastd_epi32(_mm_loadu_si32(p)));
}

// A tile of kRows x kNr; rows beyond t.rows are read and not written.
void multiply_bfloat16_tile(const TileArgs& t, const sam_rlx::BFloat16GemmArgs& g) noexcept {
  if (t.k >= kPrefetchFrom && t.rows == kRows) prefetch_tile<kRows, kNv>(t);
  const Index depth =
      (t.k + sam_rlx::kBFloat16Depth - 1) / sam_rlx::kBFloat16Depth * sam_rlx::kBFloat16Depth;
  const std::uint16_t* a = g.a + t.row * g.a_row_stride;
  const std::uint16_t* b = g.b + t.col * depth;
  Vec acc[kRows][kNv];
  for_each<kRows>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED { acc[r.value][v.value] = zero(); });
  });
  for (Index p = 0; p < t.k; p += 2, a += 2, b += 2 * kNr) {
    __m512bh bv[kNv];
    for_each<kNv>([&](auto v)
                      SAM_RLX_INLINED { bv[v.value] = load_pairs(b + v.value * 2 * kLanes); });
    for_each<kRows>([&](auto r) SAM_RLX_INLINED {
      const __m512bh av = set1_pair(a + r.value * g.a_row_stride);
      for_each<kNv>([&](auto v) SAM_RLX_INLINED {
        Vec& sum = acc[r.value][v.value];
        sum.v = _mm512_dpbf16_ps(sum.v, av, bv[v.value]);
      });
    });
  }
  if (t.rows == kRows) {
    finish_sums<kRows, kNv>(t, acc);
    return;
  }
  alignas(64) float tile[kRows * kNr];
  for_each<kRows>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED {
      store(tile + r.value * kNr + v.value * kLanes, acc[r.value][v.value]);
    });
  });
  finish_tile(t, tile);
}

void bfloat16_gemm_pairs(const sam_rlx::BFloat16GemmArgs& g) noexcept {
  each_tile<kRows>(g.target, [&](const TileArgs& t) { multiply_bfloat16_tile(t, g); });
}

}  // namespace

void sam_rlx::avx512_bf16_kernels(KernelTable& table) noexcept {
  table.name = "avx512_bf16";
  table.reduced_products = Products::kBFloat16;
  table.bfloat16_gemm = bfloat16_gemm_pairs;
  table.softmax_bfloat16 = softmax_bfloat16;
}
