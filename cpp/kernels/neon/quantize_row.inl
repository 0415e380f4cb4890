// bodies/quantize_row.inl by instructions of ARM, with the same bytes.

struct RowRange {
  float low, high;  // of the numbers and 0
  bool finite;
};

SAM_RLX_INLINE RowRange row_range(const float* x, Index cols) {
  Vec low = zero(), high = zero(), difference = zero();
  for (Index p = 0; p < cols; p += kLanes) {
    const Vec v = load_cols(x + p, cols - p);
    low.v = vminnmq_f32(low.v, v.v);
    high.v = vmaxnmq_f32(high.v, v.v);
    difference = add(difference, sub(v, v));  // NaN for NaN and infinity, else 0
  }
  return {vminnmvq_f32(low.v), vmaxnmvq_f32(high.v), reduce_add(difference) == 0.0F};
}

// out[p] = x[p] * inverse + shift, rounded, between 0 and 255; the bytes up to a multiple of 16 are
// written too. Integers are added where quantize_row of other tables adds whole floats.
SAM_RLX_INLINE void quantize_row(const float* x, Index cols, float inverse, float shift,
                                 std::uint8_t* out) {
  constexpr Index kBytes = 16;
  const int32x4_t origin = vdupq_n_s32(static_cast<std::int32_t>(shift));
  const auto sixteen = [&](Index p, auto load_four) SAM_RLX_INLINED {
    int32x4_t n[4];
    for_each<4>([&](auto i) SAM_RLX_INLINED {
      const float32x4_t scaled = vmulq_n_f32(load_four(p + i.value * kLanes).v, inverse);
      n[i.value] = vaddq_s32(vcvtnq_s32_f32(scaled), origin);
    });
    const int16x8_t low = vcombine_s16(vqmovn_s32(n[0]), vqmovn_s32(n[1]));
    const int16x8_t high = vcombine_s16(vqmovn_s32(n[2]), vqmovn_s32(n[3]));
    vst1q_u8(out + p, vcombine_u8(vqmovun_s16(low), vqmovun_s16(high)));
  };
  Index p = 0;
  for (; p + kBytes <= cols; p += kBytes) {
    sixteen(p, [&](Index i) SAM_RLX_INLINED { return load(x + i); });
  }
  if (p < cols) {
    sixteen(
        p, [&](Index i) SAM_RLX_INLINED { return i < cols ? load_cols(x + i, cols - i) : zero(); });
  }
}
