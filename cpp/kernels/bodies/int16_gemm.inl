// C = A B of integers of 16 bits, in register tiles of kMr x kNr: see Int16GemmArgs.

// Lines of memory that a tile fetches into the second-level cache: its part of the next panel of B.
struct NextLines {
  const float* first;
  Index count;
};

// tile(r, j) = sum over words of dot2(A(r, p), B(p, j)), as floats. The sums of kInt16Depth numbers
// are exact.
template <int R>
SAM_RLX_NOINLINE void sum_int16_tile(const float* a, const float* b, Index words, NextLines next,
                                     float* tile) noexcept {
  constexpr Index kBlock = sam_rlx::kInt16Depth / 2, kLineFloats = 64 / sizeof(float);
  const Index blocks = words / kBlock + 1, lines = (next.count + blocks - 1) / blocks;
  const float* line = next.first;
  const float* const end = line + next.count * kLineFloats;
  for (Index p = 0; p == 0 || p < words; p += kBlock) {
    for (Index i = 0; i < lines && line < end; ++i, line += kLineFloats) SAM_RLX_PREFETCH_FAR(line);
    IntVec sums[R][kNv];
    sum_words(a + p * kMr, b + p * kNr, smaller(kBlock, words - p), sums);
    for_each<R>([&](auto r) SAM_RLX_INLINED {
      for_each<kNv>([&](auto v) SAM_RLX_INLINED {
        float* const sum = tile + (r.value * kNv + v.value) * kLanes;
        const Vec x = to_float(sums[r.value][v.value]);
        store(sum, p == 0 ? x : add(load(sum), x));
      });
    });
  }
}

// Multiplies the sums of a tile with their scales and finishes them as gemm does.
SAM_RLX_NOINLINE void finish_int16_tile(const TileArgs& t, const sam_rlx::Int16GemmArgs& g,
                                        float* tile) noexcept {
  const auto scaled = [&](Index r, Index v) SAM_RLX_INLINED {
    const Vec scale = mul(set1(g.a_scale[t.row + r]), load(g.b_scale + t.col + v * kLanes));
    return mul(load(tile + (r * kNv + v) * kLanes), scale);
  };
  if (t.rows < kMr) {
    for (Index r = 0; r < t.rows; ++r) {
      for (Index v = 0; v < kNv; ++v) store(tile + (r * kNv + v) * kLanes, scaled(r, v));
    }
    finish_tile(t, tile);
    return;
  }
  Vec sums[kMr][kNv];
  for_each<kMr>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v)
                      SAM_RLX_INLINED { sums[r.value][v.value] = scaled(r.value, v.value); });
  });
  finish_sums<kMr, kNv>(t, sums);
}

void int16_gemm(const sam_rlx::Int16GemmArgs& g) noexcept {
  const Index words = (g.target.k + 1) / 2, panel_words = (g.b_stride + 1) / 2;
  const Index tiles = (g.target.m + kMr - 1) / kMr;
  const Index lines = words * kNr * Index{sizeof(float)} / 64, share = (lines + tiles - 1) / tiles;
  const auto* const rows = reinterpret_cast<const float*>(g.a);
  const auto* const columns = reinterpret_cast<const float*>(g.b);
  each_tile<kMr>(g.target, [&](const TileArgs& t) SAM_RLX_INLINED {
    if (t.k >= kPrefetchFrom) prefetch_tile<kMr, kNv>(t);
    const float* const panel = columns + t.col * panel_words;
    const bool more = t.col + kNr < g.target.n && tiles >= 4;
    const Index first = t.row / kMr * share;
    const NextLines next{panel + kNr * panel_words + first * Index{64 / sizeof(float)},
                         more && first < lines ? smaller(share, lines - first) : 0};
    alignas(64) float tile[kMr * kNr];
    by_rows<kMr>(t.rows, [&](auto r) SAM_RLX_INLINED {
      sum_int16_tile<r.value>(rows + t.row * words, panel, words, next, tile);
    });
    finish_int16_tile(t, g, tile);
  });
}
