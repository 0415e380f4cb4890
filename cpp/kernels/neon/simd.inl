// 4 floats in one NEON register. Functions named *_n touch only the first n lanes, 0 <= n <= 4.
struct Vec {
  float32x4_t v;
};
constexpr int kLanes = 4;

SAM_RLX_INLINE Vec zero() { return {vdupq_n_f32(0.0F)}; }
SAM_RLX_INLINE Vec set1(float x) { return {vdupq_n_f32(x)}; }
SAM_RLX_INLINE Vec load(const float* p) { return {vld1q_f32(p)}; }
SAM_RLX_INLINE void store(float* p, Vec x) { vst1q_f32(p, x.v); }
// Missing lanes are zero.
SAM_RLX_INLINE Vec load_n(const float* p, std::int64_t n) {
  if (n >= 4) return load(p);
  float32x2_t low = vdup_n_f32(0.0F), high = low;
  if ((n & 2) != 0) {
    low = vld1_f32(p);
    if ((n & 1) != 0) high = vld1_lane_f32(p + 2, high, 0);
  } else if ((n & 1) != 0) {
    low = vld1_lane_f32(p, low, 0);
  }
  return {vcombine_f32(low, high)};
}
SAM_RLX_INLINE void store_n(float* p, Vec x, std::int64_t n) {
  if (n >= 4) {
    store(p, x);
  } else if ((n & 2) != 0) {
    vst1_f32(p, vget_low_f32(x.v));
    if ((n & 1) != 0) vst1q_lane_f32(p + 2, x.v, 2);
  } else if ((n & 1) != 0) {
    vst1q_lane_f32(p, x.v, 0);
  }
}

SAM_RLX_INLINE Vec add(Vec a, Vec b) { return {vaddq_f32(a.v, b.v)}; }
SAM_RLX_INLINE Vec sub(Vec a, Vec b) { return {vsubq_f32(a.v, b.v)}; }
SAM_RLX_INLINE Vec mul(Vec a, Vec b) { return {vmulq_f32(a.v, b.v)}; }
SAM_RLX_INLINE Vec div(Vec a, Vec b) { return {vdivq_f32(a.v, b.v)}; }
SAM_RLX_INLINE Vec sqrt(Vec a) { return {vsqrtq_f32(a.v)}; }
// The second operand when one of them is not a number.
SAM_RLX_INLINE Vec min(Vec a, Vec b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
SAM_RLX_INLINE Vec max(Vec a, Vec b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
SAM_RLX_INLINE Vec abs(Vec a) { return {vabsq_f32(a.v)}; }
// sum += a * b in the register of the sum, and loads stay behind this line.
SAM_RLX_INLINE void add_product(Vec& sum, Vec a, Vec b) {
  sum.v = vfmaq_f32(sum.v, a.v, b.v);
  asm volatile("" : "+w"(sum.v) : : "memory");
}
// The same for lane I of a, and for one number. GCC copies some lanes to whole registers first,
// unless the instruction is written out.
template <class I>
SAM_RLX_INLINE void add_product(Vec& sum, Vec a, Vec b, I) {
  asm volatile("fmla %0.4s, %1.4s, %2.s[%c3]"
               : "+w"(sum.v)
               : "w"(b.v), "w"(a.v), "i"(I::value)
               : "memory");
}
SAM_RLX_INLINE void add_product(Vec& sum, float a, Vec b) {
  asm volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum.v) : "w"(b.v), "w"(a) : "memory");
}
// a * b + c and c - a * b.
SAM_RLX_INLINE Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
SAM_RLX_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {vfmsq_f32(c.v, a.v, b.v)}; }
SAM_RLX_INLINE Vec round_nearest(Vec a) { return {vrndnq_f32(a.v)}; }
// a * 2^n for whole n and a in [0.5, 2], when the result is a normal number.
SAM_RLX_INLINE Vec scale_by_power(Vec a, Vec n) {
  const int32x4_t shift = vshlq_n_s32(vcvtq_s32_f32(n.v), 23);
  return {vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a.v), shift))};
}

SAM_RLX_INLINE float reduce_add(Vec a) { return vaddvq_f32(a.v); }

// Transposes the 4 x 4 matrix whose rows are r[0 .. 3].
SAM_RLX_INLINE void transpose(Vec (&r)[kLanes]) {
  const float32x4x2_t a = vtrnq_f32(r[0].v, r[1].v);
  const float32x4x2_t b = vtrnq_f32(r[2].v, r[3].v);
  r[0].v = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
  r[1].v = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
  r[2].v = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
  r[3].v = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

// 4 pairs of 16-bit integers, and the lower halves of both vectors as such.
struct Pairs {
  int16x8_t v;
};
SAM_RLX_INLINE Pairs load_pairs(const float* p) { return {vreinterpretq_s16_f32(vld1q_f32(p))}; }
SAM_RLX_INLINE Pairs set1_pairs(const float* p) {
  return {vreinterpretq_s16_f32(vld1q_dup_f32(p))};
}
SAM_RLX_INLINE Pairs add_pairs(Pairs a, Pairs b) { return {vaddq_s16(a.v, b.v)}; }
SAM_RLX_INLINE Vec low_halves(Vec even, Vec odd) {
  return {vreinterpretq_f32_u16(
      vtrn1q_u16(vreinterpretq_u16_f32(even.v), vreinterpretq_u16_f32(odd.v)))};
}

// 4 32-bit integers, and 4 groups of four bytes.
struct IntVec {
  int32x4_t v;
};
struct Bytes {
  uint8x16_t v;
};
SAM_RLX_INLINE IntVec int_zero() { return {vdupq_n_s32(0)}; }
SAM_RLX_INLINE IntVec int_set1(std::int32_t x) { return {vdupq_n_s32(x)}; }
SAM_RLX_INLINE IntVec int_load(const std::int32_t* p) { return {vld1q_s32(p)}; }
// c - a * b.
SAM_RLX_INLINE IntVec int_fnma(IntVec a, IntVec b, IntVec c) { return {vmlsq_s32(c.v, a.v, b.v)}; }
SAM_RLX_INLINE Vec to_float(IntVec a) { return {vcvtq_f32_s32(a.v)}; }
SAM_RLX_INLINE Bytes load_bytes(const std::int8_t* p) {
  return {vld1q_u8(reinterpret_cast<const std::uint8_t*>(p))};
}
// The same four bytes in each group.
SAM_RLX_INLINE Bytes set1_bytes(const std::uint8_t* p) {
  const std::uint32_t group =
      p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
  return {vreinterpretq_u8_u32(vdupq_n_u32(group))};
}
// Whole numbers from 0 to 255.
SAM_RLX_INLINE void store_bytes(std::uint8_t* p, Vec x) {
  const uint16x4_t words = vqmovun_s32(vcvtnq_s32_f32(x.v));
  std::uint8_t bytes[2 * kLanes];
  vst1_u8(bytes, vqmovn_u16(vcombine_u16(words, words)));
  for (int i = 0; i < kLanes; ++i) p[i] = bytes[i];
}

// c + the four products of each group of unsigned a and signed b, |b| <= 64: two products fit into
// 16 bits.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  const int16x8_t a_low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a.v)));
  const int16x8_t a_high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(a.v)));
  const int8x16_t b_signed = vreinterpretq_s8_u8(b.v);
  const int16x8_t low = vmulq_s16(a_low, vmovl_s8(vget_low_s8(b_signed)));
  const int16x8_t high = vmulq_s16(a_high, vmovl_s8(vget_high_s8(b_signed)));
  return {vpadalq_s16(c.v, vpaddq_s16(low, high))};
}

// c += the two products of each pair.
SAM_RLX_INLINE void dot2(IntVec& c, Pairs a, Pairs b) {
  const int32x4_t low = vmull_s16(vget_low_s16(a.v), vget_low_s16(b.v));
  const int32x4_t high = vmull_high_s16(a.v, b.v);
  c.v = vaddq_s32(c.v, vpaddq_s32(low, high));
}
