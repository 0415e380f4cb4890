// out = (x - mean) / sqrt(variance + eps) * weight + bias for each row, with two passes for the
// variance. Divisions and roots are done for kLanes rows at once, one row in each lane: their
// latency is long, and with one row at a time nothing else could be done meanwhile.

// Lane r of the result is add_to(numbers, sum) over the numbers of row r: four independent sums, so
// that one addition does not wait for the one before. The numbers after the last whole vector are
// added one by one.
template <class Add, class AddOne>
SAM_RLX_INLINE Vec row_sums(const float* x, Index rows, Index cols, Add add_to, AddOne add_one) {
  Vec sums[kLanes];
  alignas(64) float rest[kLanes] = {};
  for (Index r = 0; r < rows; ++r, x += cols) {
    Vec s[4] = {zero(), zero(), zero(), zero()};
    Index c = 0;
    for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
      each_vector(
          s, [&](Vec& y, int i) SAM_RLX_INLINED { y = add_to(load(x + c + i * kLanes), y, r); });
    }
    for (; c + kLanes <= cols; c += kLanes) s[0] = add_to(load(x + c), s[0], r);
    sums[r] = add(add(s[0], s[1]), add(s[2], s[3]));
    for (; c < cols; ++c) rest[r] = add_one(x[c], rest[r], r);
  }
  for (Index r = rows; r < kLanes; ++r) sums[r] = zero();
  transpose(sums);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums[i] = add(sums[i], sums[i + half]);
  }
  return add(sums[0], load(rest));
}

void layer_norm_rows(const float* x, Index rows, Index cols, const float* weight, const float* bias,
                     float eps, float* out) noexcept {
  const Index whole = cols / kLanes * kLanes;
  const Vec count = set1(static_cast<float>(cols));
  alignas(64) float mean[kLanes], inverse[kLanes];
  for (; rows > 0; rows -= kLanes) {
    const Index together = smaller(rows, kLanes);
    store(mean, div(row_sums(
                        x, together, cols,
                        [](Vec v, Vec sum, Index) SAM_RLX_INLINED { return add(sum, v); },
                        [](float v, float sum, Index) SAM_RLX_INLINED { return sum + v; }),
                    count));
    const Vec variance = div(row_sums(
                                 x, together, cols,
                                 [&](Vec v, Vec sum, Index r) SAM_RLX_INLINED {
                                   const Vec d = sub(v, set1(mean[r]));
                                   return fma(d, d, sum);
                                 },
                                 [&](float v, float sum, Index r) SAM_RLX_INLINED {
                                   return sum + (v - mean[r]) * (v - mean[r]);
                                 }),
                             count);
    store(inverse, div(set1(1.0F), sqrt(add(variance, set1(eps)))));
    for (Index r = 0; r < together; ++r, x += cols, out += cols) {
      const Vec center = set1(mean[r]), scale = set1(inverse[r]);
      for (Index c = 0; c < whole; c += kLanes) {
        const Vec d = mul(sub(load(x + c), center), scale);
        store(out + c, fma(d, load(weight + c), load(bias + c)));
      }
      for (Index c = whole; c < cols; ++c) {
        out[c] = (x[c] - mean[r]) * inverse[r] * weight[c] + bias[c];
      }
    }
  }
}
