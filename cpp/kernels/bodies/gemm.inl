// The matrix product C = A B, with A (m, k), B (k, n) and C (m, n).
//
// Tiles. C is computed in tiles of kMr rows and kNr = kNv * kLanes columns. A tile is a sum of k
// outer products, one for each index p of the inner dimension: column p of A, cut to the tile's
// rows, times row p of B, cut to the tile's columns. One such product is called a step. It loads
// kNv vectors of B, broadcasts kMr numbers of A, and does kMr * kNv multiply-adds. All kMr * kNv
// sums stay in registers until the last step; then bias, activation and residual are applied, and
// the tile is stored. Each instruction set chooses kMr and kNv so that the sums fit its registers.
//
// Packing. A step should read consecutive memory. B is usually packed into panels of kNr columns:
// in a panel, the kNr numbers of step 0 are followed by those of step 1, and so on; missing columns
// of the last panel are zeros. A is packed into panels of kMr rows in the same way (PackedRows), or
// it is read where it is, with any strides (PlainRows).
//
// Blocks. A long k is cut into blocks of steps (gemm_k_block), so that a block of one panel of B
// stays in a cache while all rows of A are multiplied with it. After each block but the last, the
// sums are stored to C as they are; the next block loads them and goes on. Bias, activation and
// residual are applied after the last block.
//
// The product is in three files: products.inl sums the products of a tile in registers,
// gemm_result.inl turns the sums into numbers of C, and this file loops over tiles and blocks.

// Computes a tile of R rows and V vectors. Each vector of B can be loaded as a whole: B is packed,
// or the tile's columns fill the vectors.
template <class A, int R, int V>
void multiply_tile(const TileArgs& t) noexcept {
  Vec acc[R][V];
  sum_products<A, true>(t, acc,
                        [&](auto by_rows) SAM_RLX_INLINED { finish_sums<R, V>(t, acc, by_rows); });
}

// Computes a tile at the right edge of a B that is not packed, whose columns do not fill the last
// vector: a whole load would read past the end of B's row. Slower, and rare, since weights are
// packed.
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
// since the compiler keeps the sums in registers only if it knows their number:
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

// Computes the tile of C at (row, col); the caller has set its operands in `t`. The position comes
// as arguments, in registers: if it were stored in `t` right before, the compiler's single load of
// both numbers would have to wait for the two stores.
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
// second-level cache, a part with each tile. Returns how many cache lines each of the tiles of m
// rows fetches: 0 for fewer than 4 tiles, whose fetches would follow each other too closely.
constexpr Index panel_share(Index k, Index m) {
  const Index tiles = (m + kMr - 1) / kMr, lines = k * kNr / kLine;
  return tiles < 4 ? 0 : (lines + tiles - 1) / tiles;
}

template <class A>
void multiply(const sam_rlx::GemmArgs& g) noexcept {
  const Index block = gemm_k_block(g.k);  // steps
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
  // The operand of the outer loop is read once, the other one again for each panel of it. The
  // larger operand is read once; a packed A is always the smaller one. Where k is short, C and the
  // residual are most of the memory that is touched: then rows are the outer loop, so that both are
  // read and written in the order of memory.
  const bool mostly_c = g.k < 64 && g.m >= 4 * kMr;  // docs/develop/optimizations.md: c-by-rows
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
