// The matrix product C = A B, with A (m, k), B (k, n) and C (m, n).
//
// C is computed in tiles of kMr rows and kNr = kNv * kLanes columns. The sums of a tile stay in
// registers (kMr * kNv vectors) while k numbers of its rows of A and of its columns of B go by:
// each step multiplies one number of each row of A with one row of B's panel. Then the sums get
// bias, activation and residual, and are stored. kMr and kNv are those of the instruction set.
//
// Operands. B is usually packed: all columns of a tile form a panel, in which the kNr numbers of
// each step lie side by side, padded with zeros to whole panels. A is packed in the same way, kMr
// rows a panel (PackedRows), or read with any strides (PlainRows).
//
// A long k is cut into blocks (gemm_k_block), so that a block of a panel of B stays in a cache
// while the rows of A go by. The sums of a block but the first begin with those of the blocks
// before, which lie in C; only the last block is followed by bias, activation and residual.
//
// Three files form it: products.inl sums the products of a tile in registers, gemm_result.inl takes
// the sums to C, and this file walks over tiles and blocks.

// A tile of R rows and V vectors, all of whose vectors of B can be read as a whole.
template <class A, int R, int V>
void multiply_tile(const TileArgs& t) noexcept {
  Vec acc[R][V];
  sum_products<A, true>(t, acc, [&](auto by_rows) SAM_RLX_INLINED {
    finish_sums<R, V>(t, acc, by_rows);
  });
}

// A tile of the last columns of a B that is not packed: the last vector of a row of B would reach
// behind its end, so that it is read in part. Slower, and rare: weights are packed.
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

// Tiles at the lower and at the right edge of C are smaller. Each size has a function of its own,
// since the sums are only in registers if their number is known to the compiler:
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

// Computes the tile of C at (row, col); `t` has its operands already. The position is passed in
// registers although it is stored in `t` too: the functions read row and col with one load, which
// would have to wait for the two stores.
template <class A>
void run_tile(TileArgs& t, Index row, Index col) noexcept {
  t.row = row;
  t.col = col;
  t.rows = smaller(t.g->m - row, kMr);
  t.cols = smaller(t.g->n - col, kNr);
  const Index vectors = (t.cols + kLanes - 1) / kLanes;
  // A packed panel of B is padded with zeros to kNr columns. A plain B ends with column n.
  if (t.cols == vectors * kLanes || t.packed_b) {
    kTiles<A>.by_vectors[vectors - 1].by_rows[t.rows - 1](t);
  } else {
    multiply_tile_edge(t);
  }
}

// While the rows of A are multiplied with one panel of B, the next panel is fetched into the
// second-level cache, a part with each tile. This is the number of cache lines for each of the
// tiles of m rows. It is 0 where there are so few tiles that fetches would follow each other too
// closely.
constexpr Index panel_share(Index k, Index m) {
  const Index tiles = (m + kMr - 1) / kMr, lines = k * kNr / kLine;
  return tiles < 4 ? 0 : (lines + tiles - 1) / tiles;
}

template <class A>
void multiply(const sam_rlx::GemmArgs& g) noexcept {
  const Index block = gemm_k_block(g.k);  // steps of k that are done at once
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
  // Calls step(p0) for each block of k, in order, and sets what of `t` depends on the block. The
  // blocks of one panel follow each other, so that the sums of the block before are still in a
  // cache. The first block may add to sums that the caller holds outside of C (`partial`).
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
  // The order of the loops decides which operand is read once, and which one again for each panel
  // of the other. The larger one is read once; a packed A is always the smaller one. Where k is
  // short, most of the memory that is touched is C and the residual: then rows are the outer loop,
  // so that these are walked through in the order of memory.
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
