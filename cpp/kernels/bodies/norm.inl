// out = (x - mean) / sqrt(variance + eps) * weight + bias for each row; two passes for the
// variance.

// Sum of f(vector, lanes) over a row, in four chains so that latency does not bound it.
template <class F>
SAM_RLX_INLINE float sum_row(const float* x, Index cols, F f) {
  Vec s0 = zero();
  Vec s1 = zero();
  Vec s2 = zero();
  Vec s3 = zero();
  Index c = 0;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
    s0 = f(load(x + c), s0);
    s1 = f(load(x + c + kLanes), s1);
    s2 = f(load(x + c + 2 * kLanes), s2);
    s3 = f(load(x + c + 3 * kLanes), s3);
  }
  for (; c + kLanes <= cols; c += kLanes) s0 = f(load(x + c), s0);
  return reduce_add(add(add(s0, s1), add(s2, s3)));
}

void layer_norm_rows(const float* x, Index rows, Index cols, const float* weight, const float* bias,
                     float eps, float* out) noexcept {
  const Index whole = cols / kLanes * kLanes;
  const float count = static_cast<float>(cols);
  for (Index r = 0; r < rows; ++r, x += cols, out += cols) {
    float mean = sum_row(x, cols, [](Vec v, Vec s) { return add(s, v); });
    for (Index c = whole; c < cols; ++c) mean += x[c];
    mean /= count;
    const Vec center = set1(mean);
    float variance = sum_row(x, cols, [&](Vec v, Vec s) {
      const Vec d = sub(v, center);
      return fma(d, d, s);
    });
    for (Index c = whole; c < cols; ++c) variance += (x[c] - mean) * (x[c] - mean);
    const float inverse = 1.0F / __builtin_sqrtf(variance / count + eps);
    const Vec scale = set1(inverse);
    for (Index c = 0; c < whole; c += kLanes) {
      const Vec d = mul(sub(load(x + c), center), scale);
      store(out + c, fma(d, load(weight + c), load(bias + c)));
    }
    for (Index c = whole; c < cols; ++c) out[c] = (x[c] - mean) * inverse * weight[c] + bias[c];
  }
}
