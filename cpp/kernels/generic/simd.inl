// 4 floats in the vector type of GCC and Clang, which becomes the baseline's vector instructions.
// Functions named *_n touch only the first n lanes, 0 <= n <= 4.
constexpr int kLanes = 4;
using Floats = float __attribute__((vector_size(16)));
using Int32s = std::int32_t __attribute__((vector_size(16)));
using Words = std::uint32_t __attribute__((vector_size(16)));
using Int16s = std::int16_t __attribute__((vector_size(16)));
using HalfWords = std::uint16_t __attribute__((vector_size(16)));
struct Vec {
  Floats v;
};

SAM_RLX_INLINE Words bits_of(Floats x) { return reinterpret_cast<Words>(x); }
SAM_RLX_INLINE Floats floats_of(Words x) { return reinterpret_cast<Floats>(x); }

SAM_RLX_INLINE Vec zero() { return {Floats{}}; }
SAM_RLX_INLINE Vec set1(float x) { return {Floats{x, x, x, x}}; }
SAM_RLX_INLINE Vec load(const float* p) {
  Vec x;
  __builtin_memcpy(&x.v, p, sizeof x.v);
  return x;
}
SAM_RLX_INLINE void store(float* p, Vec x) { __builtin_memcpy(p, &x.v, sizeof x.v); }
// Missing lanes are zero.
SAM_RLX_INLINE Vec load_n(const float* p, std::int64_t n) {
  const auto lane = [=](int i) { return i < n ? p[i] : 0.0F; };
  return {Floats{lane(0), lane(1), lane(2), lane(3)}};
}
SAM_RLX_INLINE void store_n(float* p, Vec x, std::int64_t n) {
  for (int i = 0; i < kLanes; ++i) {
    if (i < n) p[i] = x.v[i];
  }
}

SAM_RLX_INLINE Vec add(Vec a, Vec b) { return {a.v + b.v}; }
SAM_RLX_INLINE Vec sub(Vec a, Vec b) { return {a.v - b.v}; }
SAM_RLX_INLINE Vec mul(Vec a, Vec b) { return {a.v * b.v}; }
SAM_RLX_INLINE Vec div(Vec a, Vec b) { return {a.v / b.v}; }
SAM_RLX_INLINE Vec sqrt(Vec a) {
  const auto lane = [=](int i) { return __builtin_sqrtf(a.v[i]); };
  return {Floats{lane(0), lane(1), lane(2), lane(3)}};
}
// The second operand when one of them is not a number.
SAM_RLX_INLINE Vec min(Vec a, Vec b) { return {a.v < b.v ? a.v : b.v}; }
SAM_RLX_INLINE Vec max(Vec a, Vec b) { return {a.v > b.v ? a.v : b.v}; }
SAM_RLX_INLINE Vec abs(Vec a) { return {floats_of(bits_of(a.v) & 0x7FFFFFFFU)}; }
// a * b + c and c - a * b, rounded twice.
SAM_RLX_INLINE Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
SAM_RLX_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {c.v - a.v * b.v}; }
// sum += a * b.
SAM_RLX_INLINE void add_product(Vec& sum, Vec a, Vec b) { sum = fma(a, b, sum); }
// For |a| < 2^22; a larger one or NaN comes back as it is.
SAM_RLX_INLINE Vec round_nearest(Vec a) {
  const Int32s small = (a.v > -4194304.0F) & (a.v < 4194304.0F);
  return {small ? (a.v + kWhole) - kWhole : a.v};
}
// a * 2^n for whole n and a in [0.5, 2], when the result is a normal number. Where n is NaN or
// infinity, a.
SAM_RLX_INLINE Vec scale_by_power(Vec a, Vec n) {
  const Vec most = set1(1073741824.0F);  // 2^30, of whose bits none is left by the shift
  const Vec power = min(max(n, sub(zero(), most)), most);
  const Int32s whole = __builtin_convertvector(power.v, Int32s);
  return {floats_of(bits_of(a.v) + (reinterpret_cast<Words>(whole) << 23))};
}

SAM_RLX_INLINE float reduce_add(Vec a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }

// Lanes I and J of a, then K and L of b.
template <int I, int J, int K, int L>
SAM_RLX_INLINE Floats lanes_of(Floats a, Floats b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, I, J, 4 + K, 4 + L);
#else
  return __builtin_shuffle(a, b, Int32s{I, J, 4 + K, 4 + L});
#endif
}

// Transposes the 4 x 4 matrix whose rows are r[0 .. 3].
SAM_RLX_INLINE void transpose(Vec (&r)[kLanes]) {
  const Floats left01 = lanes_of<0, 1, 0, 1>(r[0].v, r[1].v);
  const Floats right01 = lanes_of<2, 3, 2, 3>(r[0].v, r[1].v);
  const Floats left23 = lanes_of<0, 1, 0, 1>(r[2].v, r[3].v);
  const Floats right23 = lanes_of<2, 3, 2, 3>(r[2].v, r[3].v);
  r[0].v = lanes_of<0, 2, 0, 2>(left01, left23);
  r[1].v = lanes_of<1, 3, 1, 3>(left01, left23);
  r[2].v = lanes_of<0, 2, 0, 2>(right01, right23);
  r[3].v = lanes_of<1, 3, 1, 3>(right01, right23);
}

// 4 pairs of 16-bit integers, and the lower halves of both vectors as such.
struct Pairs {
  Words v;
};
SAM_RLX_INLINE Pairs load_pairs(const float* p) { return {bits_of(load(p).v)}; }
SAM_RLX_INLINE Pairs set1_pairs(const float* p) { return {bits_of(set1(*p).v)}; }
SAM_RLX_INLINE Pairs add_pairs(Pairs a, Pairs b) {
  const Int16s sum = reinterpret_cast<Int16s>(a.v) + reinterpret_cast<Int16s>(b.v);
  return {reinterpret_cast<Words>(sum)};
}
SAM_RLX_INLINE Vec low_halves(Vec even, Vec odd) {
  return {floats_of((bits_of(even.v) & 0xFFFFU) | bits_of(odd.v) << 16)};
}

// 4 32-bit integers, modulo 2^32, and 4 groups of four bytes.
struct IntVec {
  Words v;
};
struct Bytes {
  HalfWords v;
};
SAM_RLX_INLINE IntVec int_set1(std::int32_t x) {
  const auto word = static_cast<std::uint32_t>(x);
  return {Words{word, word, word, word}};
}
SAM_RLX_INLINE IntVec int_zero() { return {Words{}}; }
SAM_RLX_INLINE IntVec int_load(const std::int32_t* p) {
  IntVec x;
  __builtin_memcpy(&x.v, p, sizeof x.v);
  return x;
}
// c - a * b.
SAM_RLX_INLINE IntVec int_fnma(IntVec a, IntVec b, IntVec c) { return {c.v - a.v * b.v}; }
SAM_RLX_INLINE Vec to_float(IntVec a) {
  return {__builtin_convertvector(reinterpret_cast<Int32s>(a.v), Floats)};
}
SAM_RLX_INLINE Bytes load_bytes(const std::int8_t* p) {
  Bytes x;
  __builtin_memcpy(&x.v, p, sizeof x.v);
  return x;
}
// The same four bytes in each group.
SAM_RLX_INLINE Bytes set1_bytes(const std::uint8_t* p) {
  std::uint32_t word = 0;
  __builtin_memcpy(&word, p, sizeof word);
  return {reinterpret_cast<HalfWords>(Words{word, word, word, word})};
}
// Whole numbers from 0 to 255.
SAM_RLX_INLINE void store_bytes(std::uint8_t* p, Vec x) {
  const Int32s whole = __builtin_convertvector(x.v, Int32s);
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::uint8_t>(whole[i]);
}

// The 16-bit numbers of both halves of each word, with their signs, added.
SAM_RLX_INLINE Words add_halves(Int16s x) {
  const Words words = reinterpret_cast<Words>(x);
  const Int32s low = reinterpret_cast<Int32s>(words << 16) >> 16;
  const Int32s high = reinterpret_cast<Int32s>(words) >> 16;
  return reinterpret_cast<Words>(low + high);
}
// c + the four products of each group of unsigned a and signed b. A product fits 16 bits.
SAM_RLX_INLINE IntVec dot4(IntVec c, Bytes a, Bytes b) {
  const Int16s a_low = reinterpret_cast<Int16s>(a.v & 0xFF);
  const Int16s a_high = reinterpret_cast<Int16s>(a.v >> 8);
  const Int16s b_low = reinterpret_cast<Int16s>(b.v << 8) >> 8;
  const Int16s b_high = reinterpret_cast<Int16s>(b.v) >> 8;
  return {c.v + add_halves(a_low * b_low) + add_halves(a_high * b_high)};
}
// c += the two products of each pair, modulo 2^32.
SAM_RLX_INLINE void dot2(IntVec& c, Pairs a, Pairs b) {
  const auto low = [](Words x) { return reinterpret_cast<Int32s>(x << 16) >> 16; };
  const auto high = [](Words x) { return reinterpret_cast<Int32s>(x) >> 16; };
  c.v +=
      reinterpret_cast<Words>(low(a.v) * low(b.v)) + reinterpret_cast<Words>(high(a.v) * high(b.v));
}
