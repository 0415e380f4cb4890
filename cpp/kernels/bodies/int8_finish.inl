// What follows the products of bytes of a tile: see int8_gemm.inl.

// Turns the integer sums of a tile into floats and finishes them as gemm does. Where bytes of A
// were multiplied as byte - Flip, so are their zero points. Not inlined: GCC would keep a second
// copy of each sum through the whole loop of products, and run out of registers.
template <int R, int Flip = 0>
SAM_RLX_NOINLINE void finish_int8_tile(const TileArgs& t, const sam_rlx::Int8GemmArgs& g,
                                       const IntVec (&products)[R][kNv]) noexcept {
  Vec sums[R][kNv];
  for_each<R>([&](auto r) {
    const Vec scale = set1(g.a_scale[t.row + r.value]);
    const IntVec origin = int_set1(g.a_zero[t.row + r.value] - Flip);
    for_each<kNv>([&](auto v) {
      const Index col = t.col + v.value * kLanes;
      const IntVec sum = int_fnma(origin, int_load(g.b_sum + col), products[r.value][v.value]);
      sums[r.value][v.value] = mul(to_float(sum), mul(scale, load(g.b_scale + col)));
    });
  });
  finish_sums<R, kNv>(t, sums);
}
