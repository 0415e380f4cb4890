#include <arm_neon.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/base.inl"
#include "kernels/neon/pairs.inl"
// clang-format on

constexpr int kDepth = 4;  // inner numbers of a row or column, two of which fill a register
static_assert(sam_rlx::kBFloat16Rows % kMr == 0 && sam_rlx::kBFloat16Depth % kDepth == 0);

constexpr Index whole_depth(Index k) {
  return (k + sam_rlx::kBFloat16Depth - 1) / sam_rlx::kBFloat16Depth * sam_rlx::kBFloat16Depth;
}

// ---- rounding, to nearest even; NaN stay so.

// Four numbers of a, then four of b.
SAM_RLX_INLINE void store_rounded(std::uint16_t* out, Vec a, Vec b) {
  const bfloat16x8_t x = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(a.v), b.v);
  vst1q_u16(out, vreinterpretq_u16_bf16(x));
}

void round_bfloat16(const float* x, Index n, std::uint16_t* out) noexcept {
  Index i = 0;
  for (; i + 8 <= n; i += 8) store_rounded(out + i, load(x + i), load(x + i + 4));
  if (i == n) return;
  const Index left = n - i;
  std::uint16_t last[8];
  store_rounded(last, load_cols(x + i, left), left > 4 ? load_n(x + i + 4, left - 4) : zero());
  for (Index j = 0; j < left; ++j) out[i + j] = last[j];
}

// ---- packing: see PanelShape.

void pack_bfloat16_rows(const float* x, Index k, std::uint16_t* out) noexcept {
  for (Index p = 0; p < whole_depth(k); p += kDepth, x += kDepth * kNr) {
    for (Index j = 0; j < kNr; j += kLanes, out += kDepth * kLanes) {
      Vec r[kLanes];
      for_each<kDepth>([&](auto i) SAM_RLX_INLINED {
        r[i.value] = p + i.value < k ? load(x + i.value * kNr + j) : zero();
      });
      transpose(r);
      store_rounded(out, r[0], r[1]);
      store_rounded(out + 8, r[2], r[3]);
    }
  }
}

void pack_bfloat16_left(const float* const* rows, Index m, Index k, Index stride,
                        std::uint16_t* out) noexcept {
  for (Index i = 0; i < m; i += kMr, out += kMr * stride) {
    for (Index p = 0; p < whole_depth(k); p += kDepth) {
      const auto four = [&](Index r) SAM_RLX_INLINED {
        const bool valid = i + r < m && p < k && rows[i + r] != nullptr;
        return valid ? load_cols(rows[i + r] + p, k - p) : zero();
      };
      for (Index r = 0; r < kMr; r += 2) {
        store_rounded(out + (p * kMr + r * kDepth), four(r), four(r + 1));
      }
    }
  }
}

void pack_bfloat16_left_columns(const float* const* columns, Index k, Index m, Index stride,
                                std::uint16_t* out) noexcept {
  for (Index i = 0; i < m; i += kMr, out += kMr * stride) {
    for (Index p = 0; p < whole_depth(k); p += kDepth) {
      for (Index r = 0; r < smaller(kMr, m - i); r += kLanes) {
        Vec four[kLanes];
        for_each<kDepth>([&](auto j) SAM_RLX_INLINED {
          four[j.value] =
              p + j.value < k ? load_cols(columns[p + j.value] + i + r, m - i - r) : zero();
        });
        transpose(four);
        store_rounded(out + p * kMr + r * kDepth, four[0], four[1]);
        store_rounded(out + p * kMr + (r + 2) * kDepth, four[2], four[3]);
      }
    }
  }
}

// ---- products. A process has FPCR.EBF clear: sums of two products are rounded to odd, and
// denormal numbers are zero, on every processor alike.

template <int R>
void multiply_bfloat16_tile(const TileArgs& t, const sam_rlx::BFloat16GemmArgs& g) noexcept {
  if (t.k >= kPrefetchFrom) prefetch_tile<R, kNv>(t);
  constexpr int kRowPairs = (R + 1) / 2;
  const Index k = t.k;
  const auto* a = reinterpret_cast<const bfloat16_t*>(g.a) + t.row * g.a_row_stride;
  const auto* b = reinterpret_cast<const bfloat16_t*>(g.b) + t.col * whole_depth(k);
  float32x4_t acc[kRowPairs][kColumnPairs];
  for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED {
    for_each<kColumnPairs>([&](auto j)
                               SAM_RLX_INLINED { acc[r.value][j.value] = vdupq_n_f32(0.0F); });
  });
  for (Index p = 0; p < k; p += kDepth, a += kDepth * kMr, b += kDepth * kNr) {
    bfloat16x8_t av[kRowPairs];
    for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED { av[r.value] = vld1q_bf16(a + r.value * 8); });
    for_each<kColumnPairs>([&](auto j) SAM_RLX_INLINED {
      const bfloat16x8_t bv = vld1q_bf16(b + j.value * 8);
      for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED {
        float32x4_t& sum = acc[r.value][j.value];
        sum = vbfmmlaq_f32(sum, av[r.value], bv);
      });
      keep_loads_behind();
    });
  }
  Vec sums[R][kNv];
  rows_of_blocks<R>(acc, [&](auto r, auto v, float64x2_t x) SAM_RLX_INLINED {
    sums[r.value][v.value].v = vreinterpretq_f32_f64(x);
  });
  finish_sums<R, kNv>(t, sums);
}

using TileOfPairs = void (*)(const TileArgs&, const sam_rlx::BFloat16GemmArgs&) noexcept;
struct TilesOfPairs {
  TileOfPairs by_rows[kMr];
};
template <int... R>
constexpr TilesOfPairs make_tiles(Ints<R...>) {
  return {{multiply_bfloat16_tile<R + 1>...}};
}
constexpr TilesOfPairs kTiles = make_tiles(MakeInts<kMr>::type{});

void bfloat16_gemm(const sam_rlx::BFloat16GemmArgs& g) noexcept {
  TileArgs t{};
  t.g = &g.target;
  t.k = g.target.k;
  t.last = true;
  t.partial = g.target.c;
  for (t.col = 0; t.col < g.target.n; t.col += kNr) {
    t.cols = smaller(g.target.n - t.col, kNr);
    for (t.row = 0; t.row < g.target.m; t.row += kMr) {
      t.rows = smaller(g.target.m - t.row, kMr);
      kTiles.by_rows[t.rows - 1](t, g);
    }
  }
}

}  // namespace

void sam_rlx::neon_bf16_kernels(KernelTable& table) noexcept {
  table.name = "neon_bf16";
  table.bfloat16_inputs = true;
  table.bfloat16_panels = {kMr, kDepth};
  table.round_bfloat16 = round_bfloat16;
  table.bfloat16_gemm = bfloat16_gemm;
  table.pack_bfloat16_rows = pack_bfloat16_rows;
  table.pack_bfloat16_left = pack_bfloat16_left;
  table.pack_bfloat16_left_columns = pack_bfloat16_left_columns;
}
