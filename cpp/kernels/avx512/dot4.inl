// c + the four products of each group of unsigned a and signed b, as pack_int8_weight leaves it:
// two products fit into 16 bits.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  const __m512i pairs = _mm512_maddubs_epi16(a.v, b.v);
  return {_mm512_add_epi32(c.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}
