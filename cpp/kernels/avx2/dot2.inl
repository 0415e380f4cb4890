// c += the two products of each pair, in the register of c: see add_product.
SAM_RLX_INLINE void dot2(IntVec& c, Pairs a, Pairs b) {
  __m256i products;
  asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
               : "+x"(c.v), "=&x"(products)
               : "x"(a.v), "x"(b.v)
               : "memory");
}
