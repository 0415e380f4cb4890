// c + the four products of each group of unsigned a and signed b.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  return {_mm512_dpbusd_epi32(c.v, a.v, b.v)};
}
