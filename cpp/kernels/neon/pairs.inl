// Sums of products of blocks of 2 x 2: [row 0, column 0], [0, 1], [1, 0], [1, 1].

constexpr int kColumnPairs = kNr / 2;

// GCC loads all columns of a step at once, and has no registers left for sums.
SAM_RLX_INLINE void keep_loads_behind() { asm volatile("" : : : "memory"); }

// Calls set(r, v, blocks of 4 columns) for R rows: `first` and `second` are two neighbouring blocks
// of pairs of rows i. Float or integer: their bits are moved alone.
template <int R, class Block, class Set>
SAM_RLX_INLINE void rows_of_blocks(const Block (&acc)[(R + 1) / 2][kColumnPairs], Set set) {
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED {
      const auto left = reinterpret_cast<float64x2_t>(acc[r.value / 2][2 * v.value]);
      const auto right = reinterpret_cast<float64x2_t>(acc[r.value / 2][2 * v.value + 1]);
      set(r, v, r.value % 2 == 0 ? vzip1q_f64(left, right) : vzip2q_f64(left, right));
    });
  });
}
