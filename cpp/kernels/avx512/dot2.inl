// c += the two products of each pair.
SAM_RLX_INLINE void dot2(IntVec& c, Pairs a, Pairs b) {
  c.v = _mm512_add_epi32(c.v, _mm512_madd_epi16(a.v, b.v));
}
