// GELU by a polynomial for the logarithm of the normal distribution's tail. For instruction sets
// whose registers are too short for gelu_table.inl.

// x = x * Phi(x) = max(x, 0) - |x| * Phi(-|x|), Phi the normal distribution: the exact GELU. The
// error is below 2e-7 |x|.
template <int N>
SAM_RLX_INLINE void gelu(Vec (&x)[N]) {
  Vec t[N], y[N];
  each_vector(t, [&](Vec& v, int i) SAM_RLX_INLINED { v = min(set1(8.0F), abs(x[i])); });
  // Minimax for log2(Phi(-t)) on [0, 6], weighted with Phi(-t); it falls on to -46 at 8.
  each_vector(y, [](Vec& v, int) SAM_RLX_INLINED { v = set1(9.041927115e-6F); });
  horner(y, t, -5.945822340e-5F, -4.005262163e-4F, 7.351726759e-3F, -5.265656859e-2F,
         -4.591683745e-1F, -1.151108265F, -1.0F);
  exp2_normal(y);
  each_vector(x, [&](Vec& v, int i) SAM_RLX_INLINED { v = fnma(abs(v), y[i], max(zero(), v)); });
}
