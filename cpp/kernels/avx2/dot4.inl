// c + the four products of each group of unsigned a and signed b, as pack_int8_weight leaves it:
// two products fit into 16 bits.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  const __m256i pairs = _mm256_maddubs_epi16(a.v, b.v);
  return {_mm256_add_epi32(c.v, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))};
}
