// Elementary functions of a Vec.

// 2^x, relative error below 2e-7; at least 2^-125, for x up to 127.
SAM_RLX_INLINE Vec exp2(Vec x) {
  x = max(set1(-125.0F), x);
  const Vec n = round_nearest(x);
  const Vec r = sub(x, n);
  // Minimax for 2^r on [-0.5, 0.5].
  Vec y = set1(1.534580806e-4F);
  y = fma(y, r, set1(1.339993090e-3F));
  y = fma(y, r, set1(9.618489072e-3F));
  y = fma(y, r, set1(5.550328642e-2F));
  y = fma(y, r, set1(2.402264625e-1F));
  y = fma(y, r, set1(6.931471825e-1F));
  y = fma(y, r, set1(1.0F));
  return scale_by_power(y, n);
}

// x * Phi(x) = max(x, 0) - |x| * Phi(-|x|), Phi the normal distribution: the exact GELU. The error
// is below 1e-7 |x|.
SAM_RLX_INLINE Vec gelu(Vec x) {
  const Vec t = abs(x);
  // Minimax for -log2(Phi(-t)) on [0, 6], weighted with Phi(-t); it keeps growing beyond.
  Vec y = set1(2.772056862e-6F);
  y = fma(y, t, set1(-3.862081576e-5F));
  y = fma(y, t, set1(1.825478103e-4F));
  y = fma(y, t, set1(1.458698243e-4F));
  y = fma(y, t, set1(-7.075471804e-3F));
  y = fma(y, t, set1(5.250502750e-2F));
  y = fma(y, t, set1(4.592049122e-1F));
  y = fma(y, t, set1(1.151105762F));
  y = fma(y, t, set1(1.0F));
  return fnma(t, exp2(sub(zero(), y)), max(zero(), x));
}
