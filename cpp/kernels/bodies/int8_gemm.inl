// C = A B of bytes, in register tiles of kInt8Mr x kNr. The instruction set gives kInt8Mr and
// dot4(sums, a, b), which adds the products of four bytes to each sum of 32 bits.

#include "kernels/bodies/int8_finish.inl"

template <int R>
SAM_RLX_NOINLINE void multiply_int8_tile(const TileArgs& t,
                                         const sam_rlx::Int8GemmArgs& g) noexcept {
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

#include "kernels/bodies/int8_tiles.inl"
