// The two passes over a row of floats that become bytes (quantize.inl), over Vec.

struct RowRange {
  float low, high;  // of the numbers and 0
  bool finite;
};

SAM_RLX_INLINE RowRange row_range(const float* x, Index cols) {
  Vec low = zero(), high = zero(), difference = zero();
  for (Index p = 0; p < cols; p += kLanes) {
    const Vec v = load_cols(x + p, cols - p);
    low = min(v, low);
    high = max(v, high);
    difference = add(difference, sub(v, v));  // NaN for NaN and infinity, else 0
  }
  float lows[kLanes], highs[kLanes];
  store(lows, low);
  store(highs, high);
  RowRange range{0.0F, 0.0F, reduce_add(difference) == 0.0F};
  for (int i = 0; i < kLanes; ++i) {
    range.low = lows[i] < range.low ? lows[i] : range.low;
    range.high = highs[i] > range.high ? highs[i] : range.high;
  }
  return range;
}

// out[p] = x[p] * inverse + shift, rounded, between 0 and kLevels; some bytes behind the last one
// are written too.
SAM_RLX_INLINE void quantize_row(const float* x, Index cols, float inverse, float shift,
                                 std::uint8_t* out) {
  constexpr float kLevels = 255.0F;
  for (Index p = 0; p < cols; p += kLanes) {
    const Vec scaled = round_nearest(mul(load_cols(x + p, cols - p), set1(inverse)));
    store_bytes(out + p, min(set1(kLevels), max(zero(), add(scaled, set1(shift)))));
  }
}
