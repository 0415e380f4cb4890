// Products of integers of 16 bits, two by two. A word holds two of them, so that panels of words
// are what panels of floats are elsewhere.

// sums(r, j) = sum over words p < words of dot2(A(r, p), B(p, j)), for the first R rows of a panel
// of kMr and the first V vectors of a panel of kNr.
template <int R, int V>
SAM_RLX_INLINE void sum_words(const float* a, const float* b, Index words, IntVec (&sums)[R][V]) {
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    for_each<V>([&](auto v) SAM_RLX_INLINED { sums[r.value][v.value] = int_zero(); });
  });
  for (; words > 0; --words, a += kMr, b += kNr) {
    Pairs right[V];
    for_each<V>([&](auto v) SAM_RLX_INLINED { right[v.value] = load_pairs(b + v.value * kLanes); });
    for_each<R>([&](auto r) SAM_RLX_INLINED {
      const Pairs left = set1_pairs(a + r.value);
      for_each<V>([&](auto v)
                      SAM_RLX_INLINED { dot2(sums[r.value][v.value], left, right[v.value]); });
    });
  }
}
