// What every body needs. It is included first, inside the unnamed namespace.
//
// SAM_RLX_INLINED is written after the parameters of a lambda. A lambda that is not inlined reads
// its captures from memory, so that vectors in registers would have to be stored for it.
#define SAM_RLX_INLINE inline __attribute__((always_inline))
#define SAM_RLX_INLINED __attribute__((always_inline))
#define SAM_RLX_NOINLINE __attribute__((noinline))

#define SAM_RLX_PREFETCH_WRITE(p) __builtin_prefetch(p, 1, 3)
#define SAM_RLX_PREFETCH(p) __builtin_prefetch(p, 0, 3)
#define SAM_RLX_PREFETCH_FAR(p) __builtin_prefetch(p, 0, 2)  // into the second-level cache

using Index = std::int64_t;

// Compile-time indices: for_each<N>(f) calls f(Int<0>{}) ... f(Int<N - 1>{}). An array indexed with
// them stays in registers, which GCC does not promise for an unrolled loop.
template <int I>
struct Int {
  static constexpr int value = I;
};
template <int... I>
struct Ints {};
template <int N, int... I>
struct MakeInts : MakeInts<N - 1, N - 1, I...> {};
template <int... I>
struct MakeInts<0, I...> {
  using type = Ints<I...>;
};
// for_each is an object and not a function that calls another one, because each level of inlining
// takes time to compile.
template <class Indices>
struct ForEach;
template <int... I>
struct ForEach<Ints<I...>> {
  template <class F>
  SAM_RLX_INLINE void operator()(F&& f) const {
    (f(Int<I>{}), ...);
  }
};
template <int N>
constexpr ForEach<typename MakeInts<N>::type> for_each{};

// A float of less than 2^22 to which kWhole, 1.5 * 2^23, was added is rounded to a whole number,
// whose lowest 16 bits are those of the float.
constexpr float kWhole = 12582912.0F;

// Calls f(first, size) for groups out of [0, count) of at most Most. They are about equally large:
// a small one has too few independent sums to keep the multiply-add units busy.
template <Index Most, class F>
SAM_RLX_INLINE void each_group(Index count, F f) {
  Index first = 0;
  for (Index left = (count + Most - 1) / Most; left > 0; --left) {
    const Index size = (count - first + left - 1) / left;
    f(first, size);
    first += size;
  }
}

constexpr Index smaller(Index a, Index b) { return a < b ? a : b; }
constexpr Index larger(Index a, Index b) { return a > b ? a : b; }
