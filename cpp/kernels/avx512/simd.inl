#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header reads what it calls undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

// 16 floats in one AVX-512 register. Functions named *_n touch the first n lanes only, n up to 16.
struct Vec {
  __m512 v;
};
constexpr int kLanes = 16;

SAM_RLX_INLINE __mmask16 lane_mask(std::int64_t n) {
  return static_cast<__mmask16>((1U << static_cast<unsigned>(n)) - 1U);
}
SAM_RLX_INLINE Vec zero() { return {_mm512_setzero_ps()}; }
SAM_RLX_INLINE Vec set1(float x) { return {_mm512_set1_ps(x)}; }
SAM_RLX_INLINE Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
SAM_RLX_INLINE void store(float* p, Vec x) { _mm512_storeu_ps(p, x.v); }
// Missing lanes are zero.
SAM_RLX_INLINE Vec load_n(const float* p, std::int64_t n) {
  return {_mm512_maskz_loadu_ps(lane_mask(n), p)};
}
SAM_RLX_INLINE void store_n(float* p, Vec x, std::int64_t n) {
  _mm512_mask_storeu_ps(p, lane_mask(n), x.v);
}

SAM_RLX_INLINE Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
// The second operand when one of them is not a number.
SAM_RLX_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
SAM_RLX_INLINE Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
// sum += a * b in the register of the sum, and loads stay behind this line: left to itself, GCC
// copies sums from one register to another, and loads ahead of them until they find no room.
SAM_RLX_INLINE void add_product(Vec& sum, Vec a, Vec b) {
  asm volatile("vfmadd231ps %1, %2, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v) : "memory");
}
// The same for one number that lies in memory.
SAM_RLX_INLINE void add_product(Vec& sum, const float* a, Vec b) {
  asm volatile("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(sum.v) : "m"(*a), "v"(b.v) : "memory");
}
// a * b + c and c - a * b.
SAM_RLX_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
SAM_RLX_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
SAM_RLX_INLINE Vec round_nearest(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a * 2^n for whole n in [-126, 127] and a in [0.5, 2].
SAM_RLX_INLINE Vec scale_by_power(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }

// table[k] for whole numbers k from 0 to 15, to which kWhole was added: they then lie in the lowest
// bits.
SAM_RLX_INLINE Vec look_up(const float (&table)[kLanes], Vec k) {
  return {_mm512_permutexvar_ps(_mm512_castps_si512(k.v), _mm512_load_ps(table))};
}

SAM_RLX_INLINE float reduce_add(Vec a) { return _mm512_reduce_add_ps(a.v); }

// Transposes the 16 x 16 matrix whose rows are r[0 .. 15].
SAM_RLX_INLINE void transpose(Vec (&r)[kLanes]) {
  __m512 t[16];
  __m512 u[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i].v, r[i + 1].v);
    t[i + 1] = _mm512_unpackhi_ps(r[i].v, r[i + 1].v);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    u[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xEE);
    u[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i].v = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8].v = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xDD);
    r[i + 4].v = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12].v = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xDD);
  }
}

// 16 pairs of 16-bit integers, and the lower halves of both vectors as such.
struct Pairs {
  __m512i v;
};
SAM_RLX_INLINE Pairs load_pairs(const float* p) { return {_mm512_loadu_si512(p)}; }
SAM_RLX_INLINE Pairs set1_pairs(const float* p) {
  return {_mm512_castps_si512(_mm512_set1_ps(*p))};
}
SAM_RLX_INLINE Pairs add_pairs(Pairs a, Pairs b) { return {_mm512_add_epi16(a.v, b.v)}; }
SAM_RLX_INLINE Vec low_halves(Vec even, Vec odd) {
  constexpr __mmask32 kUpper = 0xAAAAAAAA;
  const __m512i upper = _mm512_slli_epi32(_mm512_castps_si512(odd.v), 16);
  return {_mm512_castsi512_ps(_mm512_mask_blend_epi16(kUpper, _mm512_castps_si512(even.v), upper))};
}

// 16 32-bit integers, and 16 groups of four bytes.
struct IntVec {
  __m512i v;
};
struct Bytes {
  __m512i v;
};
SAM_RLX_INLINE IntVec int_zero() { return {_mm512_setzero_si512()}; }
SAM_RLX_INLINE IntVec int_set1(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
SAM_RLX_INLINE IntVec int_load(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
// c - a * b.
SAM_RLX_INLINE IntVec int_fnma(IntVec a, IntVec b, IntVec c) {
  return {_mm512_sub_epi32(c.v, _mm512_mullo_epi32(a.v, b.v))};
}
SAM_RLX_INLINE Vec to_float(IntVec a) { return {_mm512_cvtepi32_ps(a.v)}; }
SAM_RLX_INLINE Bytes load_bytes(const std::int8_t* p) { return {_mm512_loadu_si512(p)}; }
// The same four bytes in each group.
SAM_RLX_INLINE Bytes set1_bytes(const std::uint8_t* p) {
  return {_mm512_broadcastd_epi32(_mm_loadu_si32(p))};
}
// Whole numbers from 0 to 255.
SAM_RLX_INLINE void store_bytes(std::uint8_t* p, Vec x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(x.v)));
}
