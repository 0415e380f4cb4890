// Floats to bytes. Every step is a single float32 operation that IEEE 754 defines, so every
// instruction set gives the same integers.

constexpr float kSmallestNormal = 1.17549435e-38F;

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

// The scale of a row and its inverse. A row of zeros has the inverse 0; a row with NaN or infinity
// has the scale NaN.
struct RowScale {
  float scale, inverse;
};
SAM_RLX_INLINE RowScale row_scale(const RowRange& range, float scale) {
  if (!range.finite) return {__builtin_nanf(""), 0.0F};
  if (scale < kSmallestNormal) return {0.0F, 0.0F};
  return {scale, 1.0F / scale};
}

void quantize_rows(const sam_rlx::QuantizeRowsArgs& g) noexcept {
  constexpr float kLevels = 255.0F;
  for (Index r = 0; r < g.rows; ++r) {
    const float* const x = g.x + r * g.cols;
    std::uint8_t* const out = g.out + r * g.out_stride;
    const RowRange range = row_range(x, g.cols);
    const RowScale row = row_scale(range, range.high / kLevels - range.low / kLevels);
    g.scale[r] = row.scale;
    if (row.inverse == 0.0F) {
      for (Index p = 0; p < g.cols; p += kLanes) store_bytes(out + p, zero());
      g.zero[r] = 0;
      continue;
    }
    float origin[kLanes];
    const Vec inverse = set1(row.inverse);
    const Vec shift = round_nearest(mul(set1(-range.low), inverse));
    store(origin, shift);
    g.zero[r] = static_cast<std::int32_t>(origin[0]);
    for (Index p = 0; p < g.cols; p += kLanes) {
      const Vec scaled = round_nearest(mul(load_cols(x + p, g.cols - p), inverse));
      store_bytes(out + p, min(set1(kLevels), max(zero(), add(scaled, shift))));
    }
  }
}

// The scale of a channel. AVX2's instruction for bytes adds the products of two neighbouring bytes
// (0 and 1, 2 and 3, ...) in 16 bits. So that they fit, the positive weights of a pair may sum to
// at most 128, and so may the negative ones: this is the smallest scale that ensures it. Weights
// are halved first, so that no sum overflows to infinity.
SAM_RLX_INLINE float channel_scale(const float* weight, Index k) {
  float largest = 0.0F;
  for (Index p = 0; p < k; p += 2) {
    const float a = 0.5F * weight[p], b = p + 1 < k ? 0.5F * weight[p + 1] : 0.0F;
    const float positive = (a > 0.0F ? a : 0.0F) + (b > 0.0F ? b : 0.0F);
    const float negative = (a < 0.0F ? a : 0.0F) + (b < 0.0F ? b : 0.0F);
    const float pair = positive > -negative ? positive : -negative;
    largest = largest > pair ? largest : pair;
  }
  return largest / 63.5F;  // each of two bytes may be rounded up by a half
}

// Packs one channel into its position of a panel, where `out` points to its first group of four
// bytes. Returns the sum of its bytes.
std::int32_t pack_int8_channel(const float* weight, Index k, float inverse, std::int8_t* out) {
  constexpr int kOffset = 128;
  std::int32_t sum = 0;
  for (Index p = 0; p < k; p += kLanes) {
    const Index count = smaller(kLanes, k - p);
    const Vec scaled = round_nearest(mul(load_cols(weight + p, count), set1(inverse)));
    std::uint8_t bytes[kLanes];
    store_bytes(bytes, add(scaled, set1(float{kOffset})));
    for (Index i = 0; i < count; ++i) {
      const int value = bytes[i] - kOffset;
      out[(p + i) / 4 * kNr * 4 + (p + i) % 4] = static_cast<std::int8_t>(value);
      sum += value;
    }
  }
  return sum;
}

void pack_int8_weight(const sam_rlx::PackInt8Args& g) noexcept {
  const Index panel = (g.k + 3) / 4 * kNr * 4;
  for (Index j = 0; j < g.n; j += kNr) {
    std::int8_t* const out = g.out + j / kNr * panel;
    for (Index i = 0; i < panel; ++i) out[i] = 0;
    for (Index i = 0; i < kNr; ++i) {
      g.scale[j + i] = 0.0F;
      g.sum[j + i] = 0;
      if (j + i >= g.n) continue;
      const float* const weight = g.weight + (j + i) * g.k;
      const RowScale row = row_scale(row_range(weight, g.k), channel_scale(weight, g.k));
      g.scale[j + i] = row.scale;
      if (row.inverse != 0.0F) {
        g.sum[j + i] = pack_int8_channel(weight, g.k, row.inverse, out + i * 4);
      }
    }
  }
}
