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
  float even[kLanes];
  for (Index i = 0; i < kLanes; ++i) even[i] = i % 2 == 0 ? 0.5F : 0.0F;
  const Vec half = load(even);  // 0 where a pair would begin with its second number
  Vec largest = zero();
  for (Index p = 0; p < k; p += kLanes) {
    const Vec a = mul(half, load_cols(weight + p, k - p));
    const Vec b = p + 1 < k ? mul(half, load_cols(weight + p + 1, k - p - 1)) : zero();
    const Vec positive = add(max(a, zero()), max(b, zero()));
    const Vec negative = add(min(a, zero()), min(b, zero()));
    largest = max(largest, max(positive, sub(zero(), negative)));
  }
  float lanes[kLanes], most = 0.0F;
  store(lanes, largest);
  for (Index i = 0; i < kLanes; ++i) most = most > lanes[i] ? most : lanes[i];
  return most / 63.5F;  // each of two bytes may be rounded up by a half
}

// Packs one channel into its position of a panel, where `out` points to its first group of four
// bytes. Returns the sum of its bytes.
std::int32_t pack_int8_channel(const float* weight, Index k, float inverse, std::int8_t* out) {
  constexpr int kOffset = 128;
  static_assert(kLanes % 4 == 0);
  Vec sum = zero();  // of whole numbers below 2^24, so exact
  for (Index p = 0; p < k; p += kLanes) {
    const Vec scaled = round_nearest(mul(load_cols(weight + p, k - p), set1(inverse)));
    sum = add(sum, scaled);
    std::uint8_t bytes[kLanes];
    store_bytes(bytes, add(scaled, set1(float{kOffset})));
    for (Index i = 0; i < smaller(kLanes, k - p); i += 4) {
      std::uint32_t group = 0;
      __builtin_memcpy(&group, bytes + i, 4);
      group ^= 0x80808080U;  // - 128 in each byte
      __builtin_memcpy(out + (p + i) / 4 * kNr * 4, &group, 4);
    }
  }
  return static_cast<std::int32_t>(reduce_add(sum));
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
