// Softmax kernels. Columns past the last full vector go through masked loads and stores.

SAM_RLX_INLINE Vec exp(Vec x) { return exp2(mul(x, set1(1.44269504088896341F))); }

// Calls step(offset, n) for runs of at most kLanes numbers.
template <class Step>
SAM_RLX_INLINE void for_lanes(Index count, Step step) {
  Index c = 0;
  for (; c + kLanes <= count; c += kLanes) step(c, kLanes);
  if (c < count) step(c, count - c);
}

void exp_columns(float* x, Index rows, Index cols, float* max_out, float* sum_out) noexcept {
  for_lanes(cols, [&](Index c, Index n) {
    Vec largest = load_cols(x + c, n);
    for (Index r = 1; r < rows; ++r) largest = max(largest, load_cols(x + r * cols + c, n));
    Vec total = zero();
    for (Index r = 0; r < rows; ++r) {
      float* const p = x + r * cols + c;
      const Vec e = exp(sub(load_cols(p, n), largest));
      total = add(total, e);
      store_cols(p, e, n);
    }
    store_cols(max_out + c, largest, n);
    store_cols(sum_out + c, total, n);
  });
}

void softmax_rows(float* x, Index rows, Index cols, float scale) noexcept {
  const Vec factor = set1(scale);
  for (Index r = 0; r < rows; ++r, x += cols) {
    float largest = x[0];
    for (Index c = 1; c < cols; ++c) largest = x[c] > largest ? x[c] : largest;
    const Vec offset = set1(largest);
    Vec total = zero();
    float tail = 0.0F;
    Index c = 0;
    for (; c + kLanes <= cols; c += kLanes) {
      const Vec e = exp(mul(sub(load(x + c), offset), factor));
      total = add(total, e);
      store(x + c, e);
    }
    if (c < cols) {
      store_cols(x + c, exp(mul(sub(load_cols(x + c, cols - c), offset), factor)), cols - c);
      for (Index i = c; i < cols; ++i) tail += x[i];
    }
    const Vec inverse = set1(1.0F / (reduce_add(total) + tail));
    for_lanes(cols,
              [&](Index i, Index n) { store_cols(x + i, mul(load_cols(x + i, n), inverse), n); });
  }
}

// Softmax over the groups of a row and one more group of zeros, which counts in the maximum and the
// sum and is not stored. A group that is smaller than a vector is slow to read after a masked
// store: its exponentials are kept as whole vectors until the sum is known. The result is stored as
// a whole vector too where the next group overwrites the surplus lanes.
void softmax_groups(float* x, Index rows, Index groups, Index lanes) noexcept {
  constexpr Index kKept = 32;  // not tuned
  alignas(64) float kept[kKept * kLanes];
  const bool keep = lanes < kLanes && groups <= kKept;
  // A whole vector may cover the next group, unless that still holds its exponentials.
  const Index covered = keep ? groups * lanes - kLanes : -1;
  for (Index r = 0; r < rows; ++r, x += groups * lanes) {
    for_lanes(lanes, [&](Index c, Index n) {
      Vec largest = zero();
      for (Index g = 0; g < groups; ++g) {
        largest = max(largest, load_cols(x + g * lanes + c, n));
      }
      Vec total = exp(sub(zero(), largest));
      float* const waiting = keep ? kept : x + c;
      const Index step = keep ? kLanes : lanes, width = keep ? kLanes : n;
      for (Index g = 0; g < groups; ++g) {
        const Vec e = exp(sub(load_cols(x + g * lanes + c, n), largest));
        total = add(total, e);
        store_cols(waiting + g * step, e, width);
      }
      const Vec inverse = div(set1(1.0F), total);
      for (Index g = 0; g < groups; ++g) {
        const Vec e = mul(load_cols(waiting + g * step, width), inverse);
        store_row(x + g * lanes + c, e, n, g * lanes <= covered);
      }
    });
  }
}

// For each column, f(number, sum) over its channels: four independent sums, so that one addition
// does not wait for the one before.
template <class F>
SAM_RLX_INLINE Vec sum_channels(const float* x, Index channels, Index cols, Index n, F f) {
  Vec s[4] = {zero(), zero(), zero(), zero()};
  Index k = 0;
  for (; k + 4 <= channels; k += 4) {
    for_each<4>([&](auto i) SAM_RLX_INLINED {
      s[i.value] = f(load_cols(x + (k + i.value) * cols, n), s[i.value]);
    });
  }
  for (; k < channels; ++k) s[0] = f(load_cols(x + k * cols, n), s[0]);
  return add(add(s[0], s[1]), add(s[2], s[3]));
}

// Layer norm over the channels of a channels-first block. Lanes are columns.
void layer_norm_columns(float* x, Index channels, Index cols, const float* weight,
                        const float* bias, float eps) noexcept {
  const Vec inverse_count = set1(1.0F / static_cast<float>(channels));
  for_lanes(cols, [&](Index c, Index n) {
    const Vec sum = sum_channels(x + c, channels, cols, n, [](Vec v, Vec s) { return add(s, v); });
    const Vec mean = mul(sum, inverse_count);
    const Vec squares = sum_channels(x + c, channels, cols, n, [&](Vec v, Vec s) {
      const Vec d = sub(v, mean);
      return fma(d, d, s);
    });
    float variance[kLanes];
    store(variance, fma(squares, inverse_count, set1(eps)));
    for (float& v : variance) v = 1.0F / __builtin_sqrtf(v);
    const Vec inverse = load(variance);
    for (Index k = 0; k < channels; ++k) {
      float* const p = x + k * cols + c;
      const Vec scaled = mul(mul(sub(load_cols(p, n), mean), inverse), set1(weight[k]));
      store_cols(p, add(scaled, set1(bias[k])), n);
    }
  });
}
