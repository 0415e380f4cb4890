// What follows the products of a tile. To its sums are added, in this order: the sums of earlier
// blocks, the biases; the activation is applied; the residual is added. Then the tile is stored to
// C. See gemm.inl.

// The exact GELU, x * Phi(x) = max(x, 0) - |x| * Phi(-|x|), where Phi is the distribution function
// of the standard normal distribution.
template <int N>
SAM_RLX_INLINE void gelu(Vec (&x)[N]) {
  Vec tail[N];
  each_vector(tail, [&](Vec& v, int i) SAM_RLX_INLINED { v = abs(x[i]); });
  normal_tail(tail);
  each_vector(x, [&](Vec& v, int i) SAM_RLX_INLINED { v = fnma(abs(v), tail[i], max(zero(), v)); });
}
SAM_RLX_INLINE Vec gelu(Vec x) {
  Vec one[1] = {x};
  gelu(one);
  return one[0];
}

// One tile of C and the operands it is computed from. Products of bytes have operands of their own
// (int8_gemm.inl) and use the rest.
struct TileArgs {
  const sam_rlx::GemmArgs* g;
  bool packed_b;               // B lies in panels
  const float* a;              // of the tile's rows, from the first step of the block on
  const float* b;              // of the tile's columns, from the first step of the block on
  Index k;                     // steps of the block
  Index row, col, rows, cols;  // position and size in C
  // accumulate: the sums in `partial` are added. last: this is the last block of k, so that bias,
  // activation and residual follow.
  bool accumulate, last;
  const float* partial;  // (m, n) sums so far
  Index partial_stride;
  // The next panel of B, and how many of its cache lines are fetched into the second-level cache
  // during this tile: at most one for each turn of the loop over k.
  const float* next;
  Index next_lines;
};

// Calls tile(t) for each tile of C, of Rows rows where there are as many; k is one block.
template <Index Rows, class Tile>
SAM_RLX_INLINE void each_tile(const sam_rlx::GemmArgs& g, Tile tile) {
  TileArgs t{};
  t.g = &g;
  t.k = g.k;
  t.last = true;
  t.accumulate = g.accumulate;
  t.partial = g.partial != nullptr ? g.partial : g.c;
  t.partial_stride = g.partial != nullptr ? g.partial_row_stride : g.c_row_stride;
  for (t.col = 0; t.col < g.n; t.col += kNr) {
    t.cols = smaller(g.n - t.col, kNr);
    for (t.row = 0; t.row < g.m; t.row += Rows) {
      t.rows = smaller(g.m - t.row, Rows);
      tile(t);
    }
  }
}

// Calls tile(Int<rows>{}) for 1 to Rows rows.
template <int Rows, class Tile>
SAM_RLX_INLINE void by_rows(Index rows, Tile tile) {
  if constexpr (Rows > 1) {
    if (rows < Rows) return by_rows<Rows - 1>(rows, tile);
  }
  tile(Int<Rows>{});
}

// Adds bias, activation and residual to a stored tile and writes it to C.
[[maybe_unused]] void finish_tile(const TileArgs& t, const float* tile) noexcept {
  const sam_rlx::GemmArgs& g = *t.g;
  for (Index i = 0; i < t.rows; ++i) {
    float* const c = g.c + (t.row + i) * g.c_row_stride + t.col;
    const float* const partial = t.partial + (t.row + i) * t.partial_stride + t.col;
    for (Index j = 0; j < t.cols; j += kLanes) {
      const Index n = smaller(t.cols - j, kLanes);
      Vec x = load(tile + i * kNr + j);
      if (t.accumulate) x = add(x, load_cols(partial + j, n));
      if (t.last) {
        if (g.column_bias != nullptr) x = add(x, load_cols(g.column_bias + t.col + j, n));
        if (g.row_bias != nullptr) x = add(x, set1(g.row_bias[t.row + i]));
        if (g.activation == sam_rlx::kGemmRelu) x = max(zero(), x);
        if (g.activation == sam_rlx::kGemmGelu) x = gelu(x);
        if (g.residual != nullptr) {
          const float* const r = g.residual + (t.row + i) * g.residual_row_stride + t.col;
          x = add(x, load_cols(r + j, n));
        }
      }
      store_cols(c + j, x, n);
    }
  }
}

// Fetches the lines of C and of the residual that a tile needs after its products. Fetching C pays
// from kPrefetchFrom steps on; the residual, which may not be in any cache, pays earlier.
// docs/develop/optimizations.md: long-blocks, decoder-panels.
constexpr Index kPrefetchFrom = 64, kPrefetchResidualFrom = 32;
template <int R, int V>
SAM_RLX_INLINE void prefetch_tile(const TileArgs& t) {
  const sam_rlx::GemmArgs& g = *t.g;
  if (t.last && g.residual != nullptr && t.k >= kPrefetchResidualFrom) {
    const float* const residual = g.residual + t.row * g.residual_row_stride + t.col;
    for_each<R>([&](auto r) SAM_RLX_INLINED {
      for_each<V>([&](auto v) SAM_RLX_INLINED {
        SAM_RLX_PREFETCH(residual + r.value * g.residual_row_stride + v.value * kLanes);
      });
    });
  }
  if (t.k < kPrefetchFrom) return;
  const float* const c = g.c + t.row * g.c_row_stride + t.col;
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    for_each<V>([&](auto v) SAM_RLX_INLINED {
      SAM_RLX_PREFETCH_WRITE(c + r.value * g.c_row_stride + v.value * kLanes);
    });
  });
}

// Does what finish_tile does, without GELU, for rows [First, End) of a tile of whole vectors whose
// sums are still in registers.
template <int First, int End, int R, int V>
SAM_RLX_INLINE void finish_registers(const TileArgs& t, Vec (&acc)[R][V]) {
  const sam_rlx::GemmArgs& g = *t.g;
  const auto each = [&](auto change) SAM_RLX_INLINED {
    for_each<End - First>([&](auto r) SAM_RLX_INLINED {
      constexpr int kRow = First + r.value;
      for_each<V>([&](auto v)
                      SAM_RLX_INLINED { change(acc[kRow][v.value], kRow, v.value * kLanes); });
    });
  };
  if (t.accumulate) {
    const float* const partial = t.partial + t.row * t.partial_stride + t.col;
    each([&](Vec& x, Index i, Index j)
             SAM_RLX_INLINED { x = add(x, load(partial + i * t.partial_stride + j)); });
  }
  if (t.last) {
    if (g.column_bias != nullptr) {
      const float* const bias = g.column_bias + t.col;
      each([&](Vec& x, Index, Index j) SAM_RLX_INLINED { x = add(x, load(bias + j)); });
    }
    if (g.row_bias != nullptr) {
      const float* const bias = g.row_bias + t.row;
      each([&](Vec& x, Index i, Index) SAM_RLX_INLINED { x = add(x, set1(bias[i])); });
    }
    if (g.activation == sam_rlx::kGemmRelu) {
      each([&](Vec& x, Index, Index) SAM_RLX_INLINED { x = max(zero(), x); });
    }
    if (g.residual != nullptr) {
      const float* const residual = g.residual + t.row * g.residual_row_stride + t.col;
      each([&](Vec& x, Index i, Index j)
               SAM_RLX_INLINED { x = add(x, load(residual + i * g.residual_row_stride + j)); });
    }
  }
  float* const c = g.c + t.row * g.c_row_stride + t.col;
  each([&](const Vec& x, Index i, Index j)
           SAM_RLX_INLINED { store(c + i * g.c_row_stride + j, x); });
}

// c(r, :) = gelu(tile(r, :)) for rows of V vectors, a few at once. It is a function of its own
// because it needs many registers: inlined, it would push the sums of the products out of theirs.
template <int V>
SAM_RLX_NOINLINE void gelu_rows(const float* tile, Index rows, float* c, Index stride) noexcept {
  const auto some = [&](auto count) SAM_RLX_INLINED {
    Vec x[decltype(count)::value * V];
    each_vector(x, [&](Vec& y, int i) SAM_RLX_INLINED { y = load(tile + i * kLanes); });
    gelu(x);
    each_vector(
        x, [&](Vec& y, int i) SAM_RLX_INLINED { store(c + i / V * stride + i % V * kLanes, y); });
    tile += count.value * V * kLanes;
    c += count.value * stride;
  };
  for (; rows >= 3; rows -= 3) some(Int<3>{});
  for (; rows >= 2; rows -= 2) some(Int<2>{});
  if (rows > 0) some(Int<1>{});
}

// Stores the sums of rows [First, End) with their biases to `tile`. When all rows are there,
// gelu_rows applies GELU and stores them to C.
template <int First, int End, int R, int V>
SAM_RLX_INLINE void bias_rows(const TileArgs& t, const Vec (&acc)[R][V], float* tile) {
  const sam_rlx::GemmArgs& g = *t.g;
  const float* const partial = t.partial + t.row * t.partial_stride + t.col;
  for_each<V>([&](auto v) SAM_RLX_INLINED {
    const Vec bias =
        g.column_bias == nullptr ? zero() : load(g.column_bias + t.col + v.value * kLanes);
    for_each<End - First>([&](auto r) SAM_RLX_INLINED {
      constexpr int kRow = First + r.value;
      Vec x = acc[kRow][v.value];
      if (t.accumulate) x = add(x, load(partial + kRow * t.partial_stride + v.value * kLanes));
      if (g.row_bias != nullptr) x = add(x, set1(g.row_bias[t.row + kRow]));
      store(tile + (kRow * V + v.value) * kLanes, add(x, bias));
    });
  });
}

// Finishes a tile whose sums are in registers. by_rows(finish) completes the sums of one group of
// rows after the other and calls finish(Int<first>, Int<end>) for each, see sum_products. A tile of
// whole vectors is stored to C from the registers, or with GELU by way of `tile`; any other is
// stored to `tile` and finished from there.
template <int R, int V, class ByRows>
SAM_RLX_INLINE void finish_sums(const TileArgs& t, Vec (&acc)[R][V], ByRows by_rows) {
  const sam_rlx::GemmArgs& g = *t.g;
  const bool whole = t.cols == V * kLanes, gelu = t.last && g.activation == sam_rlx::kGemmGelu;
  alignas(64) float tile[R * kNr];
  if (whole && !gelu) {
    by_rows([&](auto first, auto end)
                SAM_RLX_INLINED { finish_registers<first.value, end.value>(t, acc); });
  } else if (whole && g.residual == nullptr) {
    by_rows([&](auto first, auto end)
                SAM_RLX_INLINED { bias_rows<first.value, end.value>(t, acc, tile); });
    gelu_rows<V>(tile, R, g.c + t.row * g.c_row_stride + t.col, g.c_row_stride);
  } else {
    by_rows([&](auto first, auto end) SAM_RLX_INLINED {
      for_each<end.value - first.value>([&](auto r) SAM_RLX_INLINED {
        constexpr int kRow = first.value + r.value;
        for_each<V>([&](auto v) SAM_RLX_INLINED {
          store(tile + kRow * kNr + v.value * kLanes, acc[kRow][v.value]);
        });
      });
    });
    finish_tile(t, tile);
  }
}

template <int R, int V>
SAM_RLX_INLINE void finish_sums(const TileArgs& t, Vec (&acc)[R][V]) {
  finish_sums<R, V>(t, acc, [](auto finish) SAM_RLX_INLINED { finish(Int<0>{}, Int<R>{}); });
}
