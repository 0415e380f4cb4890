// C = A B by tiles: multiply<PackedRows> and multiply<PlainRows>.

template <class A, int R, int V>
void multiply_tile(const TileArgs& t) noexcept {
  Vec acc[R][V];
  sum_products<A, true>(t, acc, [&](auto by_rows) SAM_RLX_INLINED {
    finish_sums<R, V>(t, acc, by_rows);
  });
}

// Same for a tile whose B panel cannot be read in whole vectors: plain B, last columns.
void multiply_tile_edge(const TileArgs& t) noexcept {
  alignas(64) float tile[kMr * kNr];
  for (Index i = 0; i < t.rows; ++i) {
    const float* const a = t.a + i * t.g->a.row_stride;
    for (Index j = 0; j < t.cols; j += kLanes) {
      const Index n = smaller(t.cols - j, kLanes);
      Vec acc = zero();
      for (Index p = 0; p < t.k; ++p) {
        acc = fma(set1(a[p * t.g->a.k_stride]), load_cols(t.b + p * t.g->b.k_stride + j, n), acc);
      }
      store(tile + i * kNr + j, acc);
    }
  }
  finish_tile(t, tile);
}

using TileFunction = void (*)(const TileArgs&) noexcept;

// kTiles<A>.by_vectors[v - 1].by_rows[r - 1] multiplies r rows and v vectors.
struct TileRow {
  TileFunction by_rows[kMr];
};
struct TileTable {
  TileRow by_vectors[kNv];
};
template <class A, int V, int... R>
constexpr TileRow make_tile_row(Ints<R...>) {
  return {{multiply_tile<A, R + 1, V>...}};
}
template <class A, int... V>
constexpr TileTable make_tile_table(Ints<V...>) {
  return {{make_tile_row<A, V + 1>(MakeInts<kMr>::type{})...}};
}
template <class A>
constexpr TileTable kTiles = make_tile_table<A>(MakeInts<kNv>::type{});

// The position comes in registers: read from `t` just after its halves were written, both at once,
// it would wait for those stores.
template <class A>
void run_tile(TileArgs& t, Index row, Index col) noexcept {
  t.row = row;
  t.col = col;
  t.rows = smaller(t.g->m - row, kMr);
  t.cols = smaller(t.g->n - col, kNr);
  const Index vectors = (t.cols + kLanes - 1) / kLanes;
  // A packed panel of B is padded to kNr columns; a plain one ends with column n.
  if (t.cols == vectors * kLanes || t.packed_b) {
    kTiles<A>.by_vectors[vectors - 1].by_rows[t.rows - 1](t);
  } else {
    multiply_tile_edge(t);
  }
}

// While one panel of B meets A, the next one is fetched: so many lines for each tile of m rows.
// None for so few tiles that the fetches would wait.
constexpr Index panel_share(Index k, Index m) {
  const Index tiles = (m + kMr - 1) / kMr, lines = k * kNr / kLine;
  return tiles < 4 ? 0 : (lines + tiles - 1) / tiles;
}

template <class A>
void multiply(const sam_rlx::GemmArgs& g) noexcept {
  const Index block = gemm_k_block(g.k);
  TileArgs t{};
  t.g = &g;
  const bool packed_a = has_packed_a(g);
  t.packed_b = g.b.k_stride == kNr && g.b.panel_stride != kNr;
  const auto a_panel = [&](Index row, Index p0) {
    return g.a.data + (row / kMr) * g.a.panel_stride + p0 * g.a.k_stride;
  };
  const auto b_panel = [&](Index col, Index p0) {
    return g.b.data + (col / kNr) * g.b.panel_stride + p0 * g.b.k_stride;
  };
  // Calls step(p0) for each block of k, whose partial sums then are near: those of one panel.
  const auto blocks = [&](auto step) {
    Index p0 = 0;
    do {
      t.k = smaller(block, g.k - p0);
      t.accumulate = g.accumulate || p0 > 0;
      t.last = p0 + block >= g.k;
      const bool outside = p0 == 0 && g.partial != nullptr;
      t.partial = outside ? g.partial : g.c;
      t.partial_stride = outside ? g.partial_row_stride : g.c_row_stride;
      step(p0);
      p0 += block;
    } while (p0 < g.k);
  };
  // The larger of A and B is read once, and a packed A is small. With few inner numbers most of
  // what is touched is C and the residual: row by row, they are fetched in order.
  const bool mostly_c = g.k < 64 && g.m >= 4 * kMr;  // docs/optimizations.md: c-by-rows
  if (packed_a || (g.n > g.m && !mostly_c)) {
    for (Index col = 0; col < g.n; col += kNr) {
      blocks([&](Index p0) {
        const bool more = t.packed_b && col + kNr < g.n;
        t.next_lines = kPrefetchPanel && more ? panel_share(t.k, g.m) : 0;
        t.next = b_panel(more ? col + kNr : col, p0);
        t.b = b_panel(col, p0);
        for (Index row = 0; row < g.m; row += kMr, t.next += t.next_lines * kLine) {
          t.a = a_panel(row, p0);
          run_tile<A>(t, row, col);
        }
      });
    }
  } else {
    for (Index row = 0; row < g.m; row += kMr) {
      blocks([&](Index p0) {
        t.a = a_panel(row, p0);
        for (Index col = 0; col < g.n; col += kNr) {
          t.b = b_panel(col, p0);
          run_tile<A>(t, row, col);
        }
      });
    }
  }
}
