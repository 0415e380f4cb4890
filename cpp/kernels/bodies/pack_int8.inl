// Weights as bytes: see row_code.inl.

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

// Packs one channel into its position of a panel, where `out` points to its first group of Depth
// bytes. Returns the sum of its bytes.
template <int Depth>
std::int32_t pack_int8_channel(const float* weight, Index k, float inverse, std::int8_t* out) {
  constexpr int kOffset = 128, kGroup = 4;
  static_assert(kLanes % kGroup == 0 && Depth % kGroup == 0);
  Vec sum = zero();  // of whole numbers below 2^24, so exact
  for (Index p = 0; p < k; p += kLanes) {
    const Vec scaled = round_nearest(mul(load_cols(weight + p, k - p), set1(inverse)));
    sum = add(sum, scaled);
    std::uint8_t bytes[kLanes];
    store_bytes(bytes, add(scaled, set1(float{kOffset})));
    for (Index i = 0; i < smaller(kLanes, k - p); i += kGroup) {
      std::uint32_t group = 0;
      __builtin_memcpy(&group, bytes + i, kGroup);
      group ^= 0x80808080U;  // - 128 in each byte
      const Index at = p + i;
      __builtin_memcpy(out + at / Depth * kNr * Depth + at % Depth, &group, kGroup);
    }
  }
  return static_cast<std::int32_t>(reduce_add(sum));
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
