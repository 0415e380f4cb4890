// Depthwise convolution. Lanes are channels. A weight is loaded once for several neighbouring
// positions of a row.

constexpr int kDepthwisePositions = 4;  // docs/develop/optimizations.md: register-tile

// Computes positions x to x + Positions - 1 of the result. For more than one position, all taps lie
// inside the rows.
template <int Positions>
SAM_RLX_INLINE void depthwise_positions(const sam_rlx::DepthwiseRowArgs& a, Index x, Index c,
                                        Index n) {
  Vec acc[Positions];
  for_each<Positions>([&](auto p) { acc[p.value] = load_n(a.bias + c, n); });
  const Index left = x * a.stride - a.size / 2;  // position of the first tap
  const Index step = a.stride * a.channels;
  for (Index i = 0; i < a.size; ++i) {
    if (a.rows[i] == nullptr) continue;
    // Only taps inside the row are read.
    const Index first = larger(0, -left);
    const Index last = smaller(a.size, a.width - left);
    const float* in = a.rows[i] + (left + first) * a.channels + c;
    const float* weight = a.weight + (i * a.size + first) * a.channels + c;
    for (Index j = first; j < last; ++j, in += a.channels, weight += a.channels) {
      if (n == kLanes) {
        const Vec w = load(weight);
        for_each<Positions>(
            [&](auto p) { acc[p.value] = fma(w, load(in + p.value * step), acc[p.value]); });
      } else {
        const Vec w = load_n(weight, n);
        for_each<Positions>(
            [&](auto p) { acc[p.value] = fma(w, load_n(in + p.value * step, n), acc[p.value]); });
      }
    }
  }
  for_each<Positions>([&](auto p) {
    float* const out = a.out + (x + p.value) * a.channels + c;
    if (n == kLanes) {
      store(out, acc[p.value]);
    } else {
      store_n(out, acc[p.value], n);
    }
  });
}

void depthwise_row(const sam_rlx::DepthwiseRowArgs& a) noexcept {
  const Index border = a.size / 2, count = (a.width + a.stride - 1) / a.stride;
  // Results whose taps all lie inside the rows: [first, end).
  const Index first = smaller((border + a.stride - 1) / a.stride, count);
  const Index end = larger(a.width - border - 1 + a.stride, 0) / a.stride;
  for_lanes(a.channels, [&](Index c, Index n) {
    Index x = 0;
    for (; x < first; ++x) depthwise_positions<1>(a, x, c, n);
    for (; x + kDepthwisePositions <= end; x += kDepthwisePositions) {
      depthwise_positions<kDepthwisePositions>(a, x, c, n);
    }
    for (; x < count; ++x) depthwise_positions<1>(a, x, c, n);
  });
}
