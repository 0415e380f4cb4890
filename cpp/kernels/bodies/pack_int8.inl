// Weights as bytes: see row_code.inl.

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

// Packs one channel into its position of a panel, where `out` points to its first group of Depth
// bytes. Returns the sum of its bytes.
template <int Depth>
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
      out[(p + i) / Depth * kNr * Depth + (p + i) % Depth] = static_cast<std::int8_t>(value);
      sum += value;
    }
  }
  return sum;
}

template <int Depth>
void pack_int8_weight(const sam_rlx::PackInt8Args& g) noexcept {
  const Index panel = (g.k + Depth - 1) / Depth * kNr * Depth;
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
        g.sum[j + i] = pack_int8_channel<Depth>(weight, g.k, row.inverse, out + i * Depth);
      }
    }
  }
}
