// The normal distribution's tail by pieces, whose coefficients are looked up: 6 steps of the
// multiply-add units instead of the 13 of normal_tail_exponent.inl.

// Phi(-t) for t = (k + u) / 2.8125, |u| <= 0.5, is the sum of kNormalTail[d][k] u^d, a minimax
// polynomial for each piece k with an error of at most 8e-8. The last piece is 0 at t = 5.5, and
// larger t count as 5.5.
alignas(64) constexpr float kNormalTail[5][16] = {
    {5.000000000e-01F, 3.610867262e-01F, 2.385077029e-01F, 1.430611908e-01F, 7.748087496e-02F,
     3.772017732e-02F, 1.644869335e-02F, 6.407149136e-03F, 2.224447206e-03F, 6.871382939e-04F,
     1.885909587e-04F, 4.593644189e-05F, 9.920850061e-06F, 1.898285177e-06F, 3.216009645e-07F,
     2.973107094e-08F},
    {-1.418458074e-01F, -1.331567913e-01F, -1.101565957e-01F, -8.030730486e-02F, -5.159362033e-02F,
     -2.921001241e-02F, -1.457338315e-02F, -6.407366600e-03F, -2.482483396e-03F, -8.475736249e-04F,
     -2.550052013e-04F, -6.760780525e-05F, -1.579487071e-05F, -3.251631142e-06F, -5.898568247e-07F,
     -7.385710887e-08F},
    {-5.442757811e-06F, 8.416614495e-03F, 1.392567623e-02F, 1.522837766e-02F, 1.304476708e-02F,
     9.231800213e-03F, 5.527160130e-03F, 2.835146850e-03F, 1.255405834e-03F, 4.822145274e-04F,
     1.612074702e-04F, 4.701595026e-05F, 1.198331665e-05F, 2.672721394e-06F, 5.221786523e-07F,
     7.219330200e-07F},
    {3.019267460e-03F, 2.438473515e-03F, 1.146318973e-03F, -2.247170196e-04F, -1.100962865e-03F,
     -1.322410884e-03F, -1.088205958e-03F, -7.023932994e-04F, -3.729616583e-04F, -1.666668977e-04F,
     -6.349052273e-05F, -2.078378384e-05F, -5.878041975e-06F, -1.441732934e-06F, -3.075360553e-07F,
     -2.310441261e-07F},
    {-7.021638157e-05F, -2.525687160e-04F, -3.632538137e-04F, -2.973098308e-04F, -1.345864730e-04F,
     1.442923076e-05F, 8.926830924e-05F, 9.494211554e-05F, 6.731737813e-05F, 3.694391125e-05F,
     1.652820174e-05F, 6.179882348e-06F, 1.958603661e-06F, 5.308860409e-07F, 1.238154255e-07F,
     -2.691429927e-06F}};

// t = Phi(-t) for t >= 0; the error is below 1.4e-7.
template <int N>
SAM_RLX_INLINE void normal_tail(Vec (&t)[N]) {
  Vec k[N], u[N];
  each_vector(u, [&](Vec& v, int i) SAM_RLX_INLINED { v = min(set1(5.5F), t[i]); });
  each_vector(k,
              [&](Vec& v, int i) SAM_RLX_INLINED { v = fma(u[i], set1(2.8125F), set1(kWhole)); });
  each_vector(u, [&](Vec& v, int i)
                     SAM_RLX_INLINED { v = fma(v, set1(2.8125F), sub(set1(kWhole), k[i])); });
  each_vector(t, [&](Vec& v, int i) SAM_RLX_INLINED { v = look_up(kNormalTail[4], k[i]); });
  for_each<4>([&](auto d) SAM_RLX_INLINED {
    each_vector(t, [&](Vec& v, int i) SAM_RLX_INLINED {
      v = fma(v, u[i], look_up(kNormalTail[3 - d.value], k[i]));
    });
  });
}
