// 8 floats in one AVX register. Functions named *_n touch only the first n lanes, 0 <= n <= 8.
struct Vec {
  __m256 v;
};
constexpr int kLanes = 8;

SAM_RLX_INLINE __m256i lane_mask(std::int64_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
}
SAM_RLX_INLINE Vec zero() { return {_mm256_setzero_ps()}; }
SAM_RLX_INLINE Vec set1(float x) { return {_mm256_set1_ps(x)}; }
SAM_RLX_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
SAM_RLX_INLINE void store(float* p, Vec x) { _mm256_storeu_ps(p, x.v); }
// Missing lanes are zero.
SAM_RLX_INLINE Vec load_n(const float* p, std::int64_t n) {
  return {_mm256_maskload_ps(p, lane_mask(n))};
}
SAM_RLX_INLINE void store_n(float* p, Vec x, std::int64_t n) {
  _mm256_maskstore_ps(p, lane_mask(n), x.v);
}

SAM_RLX_INLINE Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
// The second operand when one of them is not a number.
SAM_RLX_INLINE Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.v)}; }
// sum += a * b in the register of the sum, and loads stay behind this line: left to itself, GCC
// copies sums from one register to another, and loads ahead of them until they find no room.
SAM_RLX_INLINE void add_product(Vec& sum, Vec a, Vec b) {
  asm volatile("vfmadd231ps %1, %2, %0" : "+x"(sum.v) : "x"(a.v), "x"(b.v) : "memory");
}
// a * b + c and c - a * b.
SAM_RLX_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
SAM_RLX_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
SAM_RLX_INLINE Vec round_nearest(Vec a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a * 2^n for whole n and a in [0.5, 2], when the result is a normal number.
SAM_RLX_INLINE Vec scale_by_power(Vec a, Vec n) {
  const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.v), shift))};
}

SAM_RLX_INLINE float reduce_add(Vec a) {
  const __m128 half = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

// Transposes the 8 x 8 matrix whose rows are r[0 .. 7].
SAM_RLX_INLINE void transpose(Vec (&r)[kLanes]) {
  __m256 t[8];
  __m256 u[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i].v, r[i + 1].v);
    t[i + 1] = _mm256_unpackhi_ps(r[i].v, r[i + 1].v);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i].v = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4].v = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

// 8 pairs of 16-bit integers, and the lower halves of both vectors as such.
struct Pairs {
  __m256i v;
};
SAM_RLX_INLINE Pairs load_pairs(const float* p) {
  return {_mm256_castps_si256(_mm256_loadu_ps(p))};
}
SAM_RLX_INLINE Pairs set1_pairs(const float* p) {
  return {_mm256_castps_si256(_mm256_broadcast_ss(p))};
}
SAM_RLX_INLINE Pairs add_pairs(Pairs a, Pairs b) { return {_mm256_add_epi16(a.v, b.v)}; }
SAM_RLX_INLINE Vec low_halves(Vec even, Vec odd) {
  const __m256i upper = _mm256_slli_epi32(_mm256_castps_si256(odd.v), 16);
  return {_mm256_castsi256_ps(_mm256_blend_epi16(_mm256_castps_si256(even.v), upper, 0xAA))};
}

// 8 32-bit integers, and 8 groups of four bytes.
struct IntVec {
  __m256i v;
};
struct Bytes {
  __m256i v;
};
SAM_RLX_INLINE IntVec int_zero() { return {_mm256_setzero_si256()}; }
SAM_RLX_INLINE IntVec int_set1(std::int32_t x) { return {_mm256_set1_epi32(x)}; }
SAM_RLX_INLINE IntVec int_load(const std::int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
// c - a * b.
SAM_RLX_INLINE IntVec int_fnma(IntVec a, IntVec b, IntVec c) {
  return {_mm256_sub_epi32(c.v, _mm256_mullo_epi32(a.v, b.v))};
}
SAM_RLX_INLINE Vec to_float(IntVec a) { return {_mm256_cvtepi32_ps(a.v)}; }
SAM_RLX_INLINE Bytes load_bytes(const std::int8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
// The same four bytes in each group.
SAM_RLX_INLINE Bytes set1_bytes(const std::uint8_t* p) {
  return {_mm256_broadcastd_epi32(_mm_loadu_si32(p))};
}
// Whole numbers from 0 to 255.
SAM_RLX_INLINE void store_bytes(std::uint8_t* p, Vec x) {
  const __m256i words = _mm256_cvtps_epi32(x.v);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(halves, halves));
}
