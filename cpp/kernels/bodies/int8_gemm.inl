// C = A B of bytes, in register tiles of kInt8Mr x kNr. The instruction set gives kInt8Mr and
// dot4(sums, a, b), which adds the products of four bytes to each sum of 32 bits.

// Turns the integer sums of a tile into floats and finishes them as gemm does. Not inlined: GCC
// would keep a second copy of each sum through the whole loop of products, and run out of
// registers.
template <int R>
SAM_RLX_NOINLINE void finish_int8_tile(const TileArgs& t, const sam_rlx::Int8GemmArgs& g,
                                       const IntVec (&products)[R][kNv]) noexcept {
  Vec sums[R][kNv];
  for_each<R>([&](auto r) {
    const Vec scale = set1(g.a_scale[t.row + r.value]);
    const IntVec origin = int_set1(g.a_zero[t.row + r.value]);
    for_each<kNv>([&](auto v) {
      const Index col = t.col + v.value * kLanes;
      const IntVec sum = int_fnma(origin, int_load(g.b_sum + col), products[r.value][v.value]);
      sums[r.value][v.value] = mul(to_float(sum), mul(scale, load(g.b_scale + col)));
    });
  });
  finish_sums<R, kNv>(t, sums);
}

template <int R>
void multiply_int8_tile(const TileArgs& t, const sam_rlx::Int8GemmArgs& g) noexcept {
  if (t.k >= kPrefetchFrom) prefetch_tile<R, kNv>(t);
  constexpr Index kGroup = 4 * kLanes;  // bytes of a vector: four of each column
  const Index groups = (t.k + 3) / 4;
  const std::uint8_t* a[R];
  for_each<R>([&](auto r) { a[r.value] = g.a + (t.row + r.value) * g.a_row_stride; });
  const std::int8_t* b = g.b + t.col * groups * 4;
  IntVec acc[R][kNv];
  for_each<R>([&](auto r) { for_each<kNv>([&](auto v) { acc[r.value][v.value] = int_zero(); }); });
  for (Index p = 0; p < groups * 4; p += 4) {
    Bytes bv[kNv];
    for_each<kNv>([&](auto v) { bv[v.value] = load_bytes(b + v.value * kGroup); });
    for_each<R>([&](auto r) {
      const Bytes av = set1_bytes(a[r.value] + p);
      for_each<kNv>(
          [&](auto v) { acc[r.value][v.value] = dot4(acc[r.value][v.value], av, bv[v.value]); });
    });
    b += kNv * kGroup;
  }
  IntVec products[R][kNv];
  for_each<R>([&](auto r) {
    for_each<kNv>([&](auto v) { products[r.value][v.value] = acc[r.value][v.value]; });
  });
  finish_int8_tile<R>(t, g, products);
}

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
