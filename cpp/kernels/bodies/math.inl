// Elementary functions of a Vec.

// Calls change(x[i], i) for several vectors. A chain of such calls does each step for all vectors
// before the next step: the vectors are independent, so that the processor overlaps their
// latencies.
template <int N, class F>
SAM_RLX_INLINE void each_vector(Vec (&x)[N], F change) {
  for_each<N>([&](auto i) SAM_RLX_INLINED { change(x[i.value], i.value); });
}

// y = (...(y x + c1) x + c2 ...) x + cn.
template <int N, class... C>
SAM_RLX_INLINE void horner(Vec (&y)[N], const Vec (&x)[N], C... c) {
  (each_vector(y, [&](Vec& v, int i) SAM_RLX_INLINED { v = fma(v, x[i], set1(c)); }), ...);
}

// x = 2^x for x from -125 to 127, relative error below 2e-7.
template <int N>
SAM_RLX_INLINE void exp2_normal(Vec (&x)[N]) {
  Vec n[N], y[N];
  each_vector(n, [&](Vec& v, int i) SAM_RLX_INLINED { v = round_nearest(x[i]); });
  each_vector(x, [&](Vec& v, int i) SAM_RLX_INLINED { v = sub(v, n[i]); });
  // Minimax for 2^x on [-0.5, 0.5] among those that are 1 at 0.
  each_vector(y, [](Vec& v, int) SAM_RLX_INLINED { v = set1(1.326471101e-3F); });
  horner(y, x, 9.671512060e-3F, 5.550733954e-2F, 2.402224243e-1F, 6.931470037e-1F, 1.0F);
  each_vector(x, [&](Vec& v, int i) SAM_RLX_INLINED { v = scale_by_power(y[i], n[i]); });
}
// The same for x up to 127; at least 2^-100, which is nothing beside the 1 of a softmax. Products
// with less would be denormal: Intel's cores take 50 ns for each vector of those.
template <int N>
SAM_RLX_INLINE void exp2(Vec (&x)[N]) {
  each_vector(x, [](Vec& v, int) SAM_RLX_INLINED { v = max(set1(-100.0F), v); });
  exp2_normal(x);
}
SAM_RLX_INLINE Vec exp2(Vec x) {
  Vec one[1] = {x};
  exp2(one);
  return one[0];
}
