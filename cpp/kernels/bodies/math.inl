// Elementary functions of a Vec.

// Several vectors at once, step by step: each waits for the last step of its own only, and the
// processor finds enough to do.
template <int N, class F>
SAM_RLX_INLINE void each_vector(Vec (&x)[N], F change) {
  for_each<N>([&](auto i) SAM_RLX_INLINED { change(x[i.value], i.value); });
}

// y = (...(y x + c1) x + c2 ...) x + cn.
template <int N, class... C>
SAM_RLX_INLINE void horner(Vec (&y)[N], const Vec (&x)[N], C... c) {
  (each_vector(y, [&](Vec& v, int i) SAM_RLX_INLINED { v = fma(v, x[i], set1(c)); }), ...);
}

// x = 2^x, relative error below 2e-7; at least 2^-125, for x up to 127.
template <int N>
SAM_RLX_INLINE void exp2(Vec (&x)[N]) {
  Vec n[N], y[N];
  each_vector(x, [](Vec& v, int) SAM_RLX_INLINED { v = max(set1(-125.0F), v); });
  each_vector(n, [&](Vec& v, int i) SAM_RLX_INLINED { v = round_nearest(x[i]); });
  each_vector(x, [&](Vec& v, int i) SAM_RLX_INLINED { v = sub(v, n[i]); });
  // Minimax for 2^x on [-0.5, 0.5].
  each_vector(y, [](Vec& v, int) SAM_RLX_INLINED { v = set1(1.534580806e-4F); });
  horner(y, x, 1.339993090e-3F, 9.618489072e-3F, 5.550328642e-2F, 2.402264625e-1F, 6.931471825e-1F,
         1.0F);
  each_vector(x, [&](Vec& v, int i) SAM_RLX_INLINED { v = scale_by_power(y[i], n[i]); });
}
SAM_RLX_INLINE Vec exp2(Vec x) {
  Vec one[1] = {x};
  exp2(one);
  return one[0];
}

// x = x * Phi(x) = max(x, 0) - |x| * Phi(-|x|), Phi the normal distribution: the exact GELU. The
// error is below 1e-7 |x|.
template <int N>
SAM_RLX_INLINE void gelu(Vec (&x)[N]) {
  Vec t[N], y[N];
  each_vector(t, [&](Vec& v, int i) SAM_RLX_INLINED { v = abs(x[i]); });
  // Minimax for log2(Phi(-t)) on [0, 6], weighted with Phi(-t); it keeps falling beyond.
  each_vector(y, [](Vec& v, int) SAM_RLX_INLINED { v = set1(-2.772056862e-6F); });
  horner(y, t, 3.862081576e-5F, -1.825478103e-4F, -1.458698243e-4F, 7.075471804e-3F,
         -5.250502750e-2F, -4.592049122e-1F, -1.151105762F, -1.0F);
  exp2(y);
  each_vector(x, [&](Vec& v, int i) SAM_RLX_INLINED { v = fnma(abs(v), y[i], max(zero(), v)); });
}
SAM_RLX_INLINE Vec gelu(Vec x) {
  Vec one[1] = {x};
  gelu(one);
  return one[0];
}
