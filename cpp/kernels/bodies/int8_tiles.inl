// C = A B of bytes, tile by tile. The instruction set gives kInt8Mr and multiply_int8_tile<R>,
// which makes a tile of R rows.

using Int8TileFunction = void (*)(const TileArgs&, const sam_rlx::Int8GemmArgs&) noexcept;
struct Int8TileRow {
  Int8TileFunction by_rows[kInt8Mr];
};
template <int... R>
constexpr Int8TileRow make_int8_tiles(Ints<R...>) {
  return {{multiply_int8_tile<R + 1>...}};
}
constexpr Int8TileRow kInt8Tiles = make_int8_tiles(MakeInts<kInt8Mr>::type{});

void int8_gemm(const sam_rlx::Int8GemmArgs& g) noexcept {
  TileArgs t{};
  t.g = &g.target;
  t.k = g.target.k;
  t.last = true;
  t.partial = g.target.c;
  for (Index col = 0; col < g.target.n; col += kNr) {
    for (Index row = 0; row < g.target.m; row += kInt8Mr) {
      t.row = row;
      t.col = col;
      t.rows = smaller(g.target.m - row, kInt8Mr);
      t.cols = smaller(g.target.n - col, kNr);
      kInt8Tiles.by_rows[t.rows - 1](t, g);
    }
  }
}
