// bfloat16: the upper half of a float32.

union FloatBits {
  std::uint32_t bits;
  float value;
};

SAM_RLX_INLINE float widened(std::uint16_t x) {
  FloatBits word;
  word.bits = std::uint32_t{x} << 16;
  return word.value;
}

void widen_bfloat16(const std::uint16_t* x, Index n, float* out) noexcept {
  for (Index i = 0; i < n; ++i) out[i] = widened(x[i]);
}

// Returns a word whose upper half is the nearest bfloat16, ties to even. Its lower half has no
// meaning.
SAM_RLX_INLINE std::uint32_t rounded(float x) {
  constexpr std::uint32_t kInfinity = 0x7F800000U, kQuiet = 0x00400000U;
  FloatBits word;
  word.value = x;
  const std::uint32_t even = word.bits + 0x7FFFU + ((word.bits >> 16) & 1U);
  const bool is_nan = (word.bits & 0x7FFFFFFFU) > kInfinity;
  return is_nan ? word.bits | kQuiet : even;
}

void round_bfloat16(const float* x, Index n, std::uint16_t* out) noexcept {
  for (Index i = 0; i < n; ++i) out[i] = static_cast<std::uint16_t>(rounded(x[i]) >> 16);
}

void pack_bfloat16_rows(const float* x, Index k, std::uint16_t* out) noexcept {
  constexpr Index kDepth = sam_rlx::kBFloat16Depth;
  alignas(64) static constexpr float kZeros[kNr] = {};
  for (Index p = 0; p < (k + kDepth - 1) / kDepth * kDepth; p += 2, out += 2 * kNr) {
    const float* const even = p < k ? x + p * kNr : kZeros;
    const float* const odd = p + 1 < k ? x + (p + 1) * kNr : kZeros;
    for (Index j = 0; j < kNr; ++j) {
      out[2 * j] = static_cast<std::uint16_t>(rounded(even[j]) >> 16);
      out[2 * j + 1] = static_cast<std::uint16_t>(rounded(odd[j]) >> 16);
    }
  }
}

void softmax_bfloat16(const sam_rlx::SoftmaxColumnsArgs& s, std::uint16_t* weights) noexcept {
  softmax_columns(s);
  pack_bfloat16_rows(s.scores, s.keys, weights);
}

void pack_bfloat16_left(const float* const* rows, Index m, Index k, Index stride,
                        std::uint16_t* out) noexcept {
  constexpr Index kDepth = sam_rlx::kBFloat16Depth;
  const Index depth = (k + kDepth - 1) / kDepth * kDepth;
  for (Index i = 0; i < m; ++i, out += stride) {
    const Index valid = rows[i] == nullptr ? 0 : k;
    round_bfloat16(rows[i], valid, out);
    for (Index p = valid; p < depth; ++p) out[p] = 0;
  }
}

void pack_bfloat16_left_columns(const float* const* columns, Index k, Index m, Index stride,
                                std::uint16_t* out) noexcept {
  constexpr Index kDepth = sam_rlx::kBFloat16Depth;
  constexpr Index kSlice = 64;  // of rows (docs/develop/optimizations.md: work-items)
  alignas(64) float packed[kSlice * kNr];
  const Index depth = (k + kDepth - 1) / kDepth * kDepth;
  for (Index p = 0; p < depth; p += kNr) {
    const Index width = smaller(kNr, depth - p);
    for (Index i = 0; i < m; i += kSlice) {
      const Index slice = smaller(kSlice, m - i);
      const float* pointers[kNr] = {};
      for (Index j = 0; j < smaller(kNr, k - p); ++j) pointers[j] = columns[p + j] + i;
      pack_b_rows(pointers, slice, 1.0F, packed);
      for (Index r = 0; r < slice; ++r) {
        round_bfloat16(packed + r * kNr, width, out + (i + r) * stride + p);
      }
    }
  }
}

// The plain product, for tests and for processors without an instruction for bfloat16. There,
// weights are usually widened to float32 instead.
void bfloat16_gemm(const sam_rlx::BFloat16GemmArgs& g) noexcept {
  const Index pairs = (g.target.k + 31) / 32 * 16;
  TileArgs t{};
  t.g = &g.target;
  t.last = true;
  t.partial = g.target.c;
  t.rows = 1;
  for (t.col = 0; t.col < g.target.n; t.col += kNr) {
    t.cols = smaller(g.target.n - t.col, kNr);
    for (t.row = 0; t.row < g.target.m; ++t.row) {
      const std::uint16_t* const a = g.a + t.row * g.a_row_stride;
      const std::uint16_t* b = g.b + t.col * pairs * 2;
      alignas(64) float sums[kNr] = {};
      for (Index p = 0; p < pairs; ++p, b += 2 * kNr) {
        const float even = widened(a[2 * p]), odd = widened(a[2 * p + 1]);
        for (Index j = 0; j < kNr; ++j) {
          sums[j] += even * widened(b[2 * j]) + odd * widened(b[2 * j + 1]);
        }
      }
      finish_tile(t, sums);
    }
  }
}
