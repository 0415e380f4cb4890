// Products of blocks. A register of 16 bytes has some inner numbers of two rows or of two columns,
// and a sum has [row 0, column 0], [0, 1], [1, 0], [1, 1].

// Sums R rows of a tile over `steps` registers of a panel of kMr rows and of one of kNr columns.
// multiply(block, a, b) is the instruction, for registers of bytes.
template <int R, class Sum, class Multiply>
SAM_RLX_INLINE void multiply_blocks(const TileArgs& t, const void* a, const void* b, Index steps,
                                    Sum (&sums)[R][kNv], Multiply multiply) {
  if (t.k >= kPrefetchFrom) prefetch_tile<R, kNv>(t);
  constexpr int kBytes = 16, kRowPairs = (R + 1) / 2, kColumnPairs = kNr / 2;
  const auto* rows = static_cast<const std::uint8_t*>(a);
  const auto* columns = static_cast<const std::uint8_t*>(b);
  using Block = decltype(Sum::v);
  Block acc[kRowPairs][kColumnPairs];
  for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED {
    for_each<kColumnPairs>([&](auto j) SAM_RLX_INLINED { acc[r.value][j.value] = Block{}; });
  });
  for (; steps > 0; --steps, rows += kBytes * kMr / 2, columns += kBytes * kColumnPairs) {
    uint8x16_t av[kRowPairs];
    for_each<kRowPairs>([&](auto r)
                            SAM_RLX_INLINED { av[r.value] = vld1q_u8(rows + r.value * kBytes); });
    for_each<kColumnPairs>([&](auto j) SAM_RLX_INLINED {
      const uint8x16_t bv = vld1q_u8(columns + j.value * kBytes);
      for_each<kRowPairs>([&](auto r) SAM_RLX_INLINED {
        acc[r.value][j.value] = multiply(acc[r.value][j.value], av[r.value], bv);
      });
      // GCC loads all columns of a step at once, and has no registers left for sums.
      asm volatile("" : : : "memory");
    });
  }
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED {
      const auto left = reinterpret_cast<float64x2_t>(acc[r.value / 2][2 * v.value]);
      const auto right = reinterpret_cast<float64x2_t>(acc[r.value / 2][2 * v.value + 1]);
      const auto row = r.value % 2 == 0 ? vzip1q_f64(left, right) : vzip2q_f64(left, right);
      sums[r.value][v.value].v = reinterpret_cast<Block>(row);  // the bits, of either kind
    });
  });
}
