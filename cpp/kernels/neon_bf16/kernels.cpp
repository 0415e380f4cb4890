#include <arm_neon.h>

#include "kernels/kernel_table.h"

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/neon/base.inl"
#include "kernels/neon/pairs.inl"
#include "kernels/bodies/softmax_columns.inl"
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

void softmax_bfloat16(const sam_rlx::SoftmaxColumnsArgs& s, std::uint16_t* weights) noexcept {
  with_vectors(s.columns, [&](auto v) SAM_RLX_INLINED { softmax_vectors<v.value>(s); });
  pack_bfloat16_rows(s.scores, s.keys, weights);
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
SAM_RLX_NOINLINE void multiply_bfloat16_tile(const TileArgs& t,
                                             const sam_rlx::BFloat16GemmArgs& g) noexcept {
  Vec sums[R][kNv];
  multiply_blocks<R>(t, g.a + t.row * g.a_row_stride, g.b + t.col * whole_depth(t.k),
                     (t.k + kDepth - 1) / kDepth, sums,
                     [](float32x4_t sum, uint8x16_t a, uint8x16_t b) SAM_RLX_INLINED {
                       return vbfmmlaq_f32(sum, vreinterpretq_bf16_u8(a), vreinterpretq_bf16_u8(b));
                     });
  finish_sums<R, kNv>(t, sums);
}

void bfloat16_gemm(const sam_rlx::BFloat16GemmArgs& g) noexcept {
  each_tile<kMr>(g.target, [&](const TileArgs& t) SAM_RLX_INLINED {
    by_rows<kMr>(t.rows, [&](auto r) SAM_RLX_INLINED { multiply_bfloat16_tile<r.value>(t, g); });
  });
}

}  // namespace

void sam_rlx::neon_bf16_kernels(KernelTable& table) noexcept {
  table.name = "neon_bf16";
  table.reduced_products = Products::kBFloat16;
  table.bfloat16_panels = {kMr, kDepth};
  table.round_bfloat16 = round_bfloat16;
  table.bfloat16_gemm = bfloat16_gemm;
  table.pack_bfloat16_rows = pack_bfloat16_rows;
  table.softmax_bfloat16 = softmax_bfloat16;
  table.pack_bfloat16_left = pack_bfloat16_left;
  table.pack_bfloat16_left_columns = pack_bfloat16_left_columns;
}
