// 4 floats, in plain C++ that every compiler turns into the baseline's vector instructions.
// Functions named *_n touch only the first n lanes, 0 <= n <= 4.
constexpr int kLanes = 4;
struct Vec {
  float v[kLanes];
};

template <class F>
SAM_RLX_INLINE Vec each_lane(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
SAM_RLX_INLINE Vec zero() { return {{0.0F, 0.0F, 0.0F, 0.0F}}; }
SAM_RLX_INLINE Vec set1(float x) { return {{x, x, x, x}}; }
SAM_RLX_INLINE Vec load(const float* p) { return {{p[0], p[1], p[2], p[3]}}; }
SAM_RLX_INLINE void store(float* p, Vec x) {
  for (int i = 0; i < kLanes; ++i) p[i] = x.v[i];
}
// Missing lanes are zero.
SAM_RLX_INLINE Vec load_n(const float* p, std::int64_t n) {
  return each_lane([=](int i) { return i < n ? p[i] : 0.0F; });
}
SAM_RLX_INLINE void store_n(float* p, Vec x, std::int64_t n) {
  for (int i = 0; i < n; ++i) p[i] = x.v[i];
}

SAM_RLX_INLINE Vec add(Vec a, Vec b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
SAM_RLX_INLINE Vec sub(Vec a, Vec b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
SAM_RLX_INLINE Vec mul(Vec a, Vec b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
SAM_RLX_INLINE Vec div(Vec a, Vec b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
SAM_RLX_INLINE Vec sqrt(Vec a) {
  return each_lane([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
// The second operand when one of them is not a number.
SAM_RLX_INLINE Vec min(Vec a, Vec b) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
SAM_RLX_INLINE Vec max(Vec a, Vec b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
SAM_RLX_INLINE Vec abs(Vec a) {
  return each_lane([&](int i) { return __builtin_fabsf(a.v[i]); });
}
// a * b + c and c - a * b, rounded twice.
SAM_RLX_INLINE Vec fma(Vec a, Vec b, Vec c) { return add(mul(a, b), c); }
SAM_RLX_INLINE Vec fnma(Vec a, Vec b, Vec c) { return sub(c, mul(a, b)); }
// sum += a * b.
SAM_RLX_INLINE void add_product(Vec& sum, Vec a, Vec b) { sum = fma(a, b, sum); }
// For |a| < 2^22; a larger one or NaN comes back as it is.
SAM_RLX_INLINE Vec round_nearest(Vec a) {
  return each_lane([&](int i) {
    constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23: the sum has no bits behind the point
    const float x = a.v[i];
    return x > -4194304.0F && x < 4194304.0F ? (x + kMagic) - kMagic : x;
  });
}
// Whether scale_by_power gives 0 for any n below.
constexpr bool kScalesToZero = false;
// a * 2^n for whole n and a in [0.5, 2], when the result is a normal number. Where n is NaN or
// infinity, a.
SAM_RLX_INLINE Vec scale_by_power(Vec a, Vec n) {
  return each_lane([&](int i) {
    union {
      float value;
      std::uint32_t bits;
    } x;
    constexpr float kMax = 1073741824.0F;  // 2^30, of whose bits none is left by the shift
    const float above = n.v[i] > -kMax ? n.v[i] : -kMax;
    const float power = above < kMax ? above : kMax;
    x.value = a.v[i];
    x.bits += static_cast<std::uint32_t>(static_cast<std::int32_t>(power)) << 23;
    return x.value;
  });
}

SAM_RLX_INLINE float reduce_add(Vec a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }

// Transposes the 4 x 4 matrix whose rows are r[0 .. 3].
SAM_RLX_INLINE void transpose(Vec (&r)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const float x = r[i].v[j];
      r[i].v[j] = r[j].v[i];
      r[j].v[i] = x;
    }
  }
}

// 4 32-bit integers, and 4 groups of four bytes.
struct IntVec {
  std::int32_t v[kLanes];
};
struct Bytes {
  std::uint8_t v[4 * kLanes];
};
SAM_RLX_INLINE IntVec int_set1(std::int32_t x) { return {{x, x, x, x}}; }
SAM_RLX_INLINE IntVec int_zero() { return int_set1(0); }
SAM_RLX_INLINE IntVec int_load(const std::int32_t* p) { return {{p[0], p[1], p[2], p[3]}}; }
// c - a * b, modulo 2^32.
SAM_RLX_INLINE IntVec int_fnma(IntVec a, IntVec b, IntVec c) {
  for (int i = 0; i < kLanes; ++i) {
    c.v[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(c.v[i]) -
                                       static_cast<std::uint32_t>(a.v[i]) *
                                           static_cast<std::uint32_t>(b.v[i]));
  }
  return c;
}
SAM_RLX_INLINE Vec to_float(IntVec a) {
  return each_lane([&](int i) { return static_cast<float>(a.v[i]); });
}
SAM_RLX_INLINE Bytes load_bytes(const std::int8_t* p) {
  Bytes x;
  for (int i = 0; i < 4 * kLanes; ++i) x.v[i] = static_cast<std::uint8_t>(p[i]);
  return x;
}
// The same four bytes in each group.
SAM_RLX_INLINE Bytes set1_bytes(const std::uint8_t* p) {
  Bytes x;
  for (int i = 0; i < 4 * kLanes; ++i) x.v[i] = p[i % 4];
  return x;
}
// Whole numbers from 0 to 255.
SAM_RLX_INLINE void store_bytes(std::uint8_t* p, Vec x) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::uint8_t>(x.v[i]);
}

// c + the four products of each group of unsigned a and signed b, modulo 2^32.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  for (int i = 0; i < kLanes; ++i) {
    std::int32_t sum = 0;
    for (int j = 4 * i; j < 4 * i + 4; ++j) sum += a.v[j] * static_cast<std::int8_t>(b.v[j]);
    c.v[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(c.v[i]) +
                                       static_cast<std::uint32_t>(sum));
  }
  return c;
}
