// The normal distribution's tail by a polynomial for its logarithm. For instruction sets whose
// registers are too short for normal_tail_table.inl.

// t = Phi(-t) for t >= 0; the error is below 2e-7.
template <int N>
SAM_RLX_INLINE void normal_tail(Vec (&t)[N]) {
  Vec y[N];
  each_vector(t, [](Vec& v, int) SAM_RLX_INLINED { v = min(set1(8.0F), v); });
  // Minimax for log2(Phi(-t)) on [0, 6], weighted with Phi(-t). Beyond, the polynomial keeps
  // falling, to -46 at 8.
  each_vector(y, [](Vec& v, int) SAM_RLX_INLINED { v = set1(9.041927115e-6F); });
  horner(y, t, -5.945822340e-5F, -4.005262163e-4F, 7.351726759e-3F, -5.265656859e-2F,
         -4.591683745e-1F, -1.151108265F, -1.0F);
  exp2_normal(y);
  each_vector(t, [&](Vec& v, int i) SAM_RLX_INLINED { v = y[i]; });
}
