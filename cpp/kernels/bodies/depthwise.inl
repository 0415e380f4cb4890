// Depthwise convolution. Lanes are channels. A weight is loaded once for several neighbouring
// positions of a row.

constexpr int kDepthwisePositions = 4;  // docs/develop/optimizations.md: register-tile

// Computes positions x to x + Positions - 1. For more than one position, all taps lie inside the
// rows.
template <int Positions>
SAM_RLX_INLINE void depthwise_positions(const sam_rlx::DepthwiseRowArgs& a, Index x, Index c,
                                        Index n) {
  Vec acc[Positions];
  for_each<Positions>([&](auto p) { acc[p.value] = load_n(a.bias + c, n); });
  for (Index i = 0; i < a.size; ++i) {
    if (a.rows[i] == nullptr) continue;
    // Only taps inside the row are read.
    const Index first = larger(0, a.size / 2 - x);
    const Index last = smaller(a.size, a.width - x + a.size / 2);
    const float* in = a.rows[i] + (x + first - a.size / 2) * a.channels + c;
    const float* weight = a.weight + (i * a.size + first) * a.channels + c;
    for (Index j = first; j < last; ++j, in += a.channels, weight += a.channels) {
      if (n == kLanes) {
        const Vec w = load(weight);
        for_each<Positions>(
            [&](auto p) { acc[p.value] = fma(w, load(in + p.value * a.channels), acc[p.value]); });
      } else {
        const Vec w = load_n(weight, n);
        for_each<Positions>([&](auto p) {
          acc[p.value] = fma(w, load_n(in + p.value * a.channels, n), acc[p.value]);
        });
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
  const Index border = a.size / 2;
  for_lanes(a.channels, [&](Index c, Index n) {
    Index x = 0;
    for (; x < smaller(border, a.width); ++x) depthwise_positions<1>(a, x, c, n);
    for (; x + kDepthwisePositions <= a.width - border; x += kDepthwisePositions) {
      depthwise_positions<kDepthwisePositions>(a, x, c, n);
    }
    for (; x < a.width; ++x) depthwise_positions<1>(a, x, c, n);
  });
}
