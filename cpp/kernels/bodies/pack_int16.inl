// Floats to integers of 16 bits, two in each word: operands of int16_gemm and attend_int16.

// The largest number, in absolute value, of each lane, and whether all were finite.
struct LaneRange {
  Vec most = zero(), difference = zero();

  SAM_RLX_INLINE void add_numbers(Vec x) {
    most = max(most, abs(x));
    difference = add(difference, sub(x, x));  // NaN for NaN and infinity, else 0
  }
};

// Scales of the numbers of each lane, and their inverses.
SAM_RLX_INLINE void lane_scales(const LaneRange& range, float limit, float* scale, float* inverse) {
  float most[kLanes], difference[kLanes];
  store(most, range.most);
  store(difference, range.difference);
  for (int i = 0; i < kLanes; ++i) {
    const RowScale lane = row_scale({-most[i], most[i], difference[i] == 0.0F}, most[i] / limit);
    scale[i] = lane.scale;
    inverse[i] = lane.inverse;
  }
}

// A whole number in the lowest bits of each lane, see kWhole.
SAM_RLX_INLINE Vec whole(Vec x, Vec inverse) { return fma(x, inverse, set1(kWhole)); }

void pack_int16_rows(const float* x, Index k, float limit, std::int16_t* out,
                     float* scale) noexcept {
  auto* const words = reinterpret_cast<float*>(out);
  for_each<kNv>([&](auto v) {
    constexpr Index kFirst = v.value * kLanes;
    LaneRange range;
    for (Index p = 0; p < k; ++p) range.add_numbers(load(x + p * kNr + kFirst));
    float inverses[kLanes];
    lane_scales(range, limit, scale + kFirst, inverses);
    const Vec inverse = load(inverses);
    for (Index p = 0; p < k; p += 2) {
      const Vec even = whole(load(x + p * kNr + kFirst), inverse);
      const Vec odd = p + 1 < k ? whole(load(x + (p + 1) * kNr + kFirst), inverse) : zero();
      store(words + p / 2 * kNr + kFirst, low_halves(even, odd));
    }
  });
}

// words[i] = numbers 2 i and 2 i + 1 of a row of n.
SAM_RLX_INLINE void row_words(const float* row, Index n, float inverse, float* words) {
  const auto integer = [&](float x) SAM_RLX_INLINED {
    FloatBits word;
    word.value = x * inverse + kWhole;
    return word.bits;
  };
  const auto put = [&](Index i, std::uint32_t even, std::uint32_t odd) SAM_RLX_INLINED {
    const std::uint32_t word = (even & 0xFFFFU) | odd << 16;
    __builtin_memcpy(words + i, &word, sizeof word);
  };
  for (Index i = 0; i < n / 2; ++i) put(i, integer(row[2 * i]), integer(row[2 * i + 1]));
  if (n % 2 > 0) put(n / 2, integer(row[n - 1]), 0);
}

void pack_int16_left(const float* const* rows, Index m, Index k, float limit, std::int16_t* out,
                     float* scale) noexcept {
  constexpr Index kSlice = 64;  // numbers of a row
  auto* words = reinterpret_cast<float*>(out);
  for (Index i = 0; i < m; i += kMr, words += (k + 1) / 2 * kMr) {
    float inverse[kMr];
    for (Index r = 0; r < kMr; ++r) {
      RowScale row{0.0F, 0.0F};
      if (i + r < m) {
        const RowRange range = row_range(rows[i + r], k);
        row = row_scale(range, largest(range) / limit);
      }
      scale[i + r] = row.scale;
      inverse[r] = row.inverse;
    }
    for (Index p = 0; p < k; p += kSlice) {
      alignas(64) float packed[kMr * kSlice / 2];
      const float* pointers[kMr] = {};
      const Index n = smaller(kSlice, k - p);
      for (Index r = 0; r < smaller(kMr, m - i); ++r) {
        float* const to = packed + r * kSlice / 2;
        row_words(rows[i + r] + p, n, inverse[r], to);
        pointers[r] = to;
      }
      pack_a_rows(pointers, (n + 1) / 2, words + p / 2 * kMr);
    }
  }
}

// The scale of a column of B, given as k numbers side by side: see kInt16Sum.
SAM_RLX_INLINE RowScale column_scale(const float* column, Index k) {
  constexpr float kLargest = 32767.0F;
  const RowRange range = row_range(column, k);
  float scale = largest(range) / kLargest;
  for (Index p = 0; p < k; p += sam_rlx::kInt16Depth) {
    Vec sum = zero();
    for (Index q = p; q < smaller(p + sam_rlx::kInt16Depth, k); q += kLanes) {
      sum = fma(abs(load_cols(column + q, k - q)), set1(1.0F / sam_rlx::kInt16Sum), sum);
    }
    const float block = reduce_add(sum);
    scale = block > scale ? block : scale;
  }
  return row_scale(range, scale);
}

void pack_int16_weight(const float* weight, Index n, Index k, std::int16_t* out,
                       float* scale) noexcept {
  constexpr Index kSlice = 64;  // numbers of a column
  auto* words = reinterpret_cast<float*>(out);
  for (Index j = 0; j < n; j += kNr) {
    const Index columns = smaller(kNr, n - j);
    float inverse[kNr];
    for (Index i = 0; i < kNr; ++i) {
      const RowScale column = i < columns ? column_scale(weight + (j + i) * k, k) : RowScale{};
      scale[j + i] = column.scale;
      inverse[i] = column.inverse;
    }
    for (Index p = 0; p < k; p += kSlice) {
      alignas(64) float packed[kNr * kSlice / 2];
      const Index count = smaller(kSlice, k - p), width = (count + 1) / 2;
      for (Index i = 0; i < columns; ++i) {
        row_words(weight + (j + i) * k + p, count, inverse[i], packed + i * width);
      }
      pack_weight(packed, width, columns, width, words);
      words += width * kNr;
    }
  }
}

void pack_int16_left_columns(const float* const* columns, Index k, Index m, float limit,
                             std::int16_t* out, float* scale) noexcept {
  constexpr Index kSlice = 16 * kMr;  // rows: whole panels, and whole vectors
  constexpr Index kWords = 16;
  auto* const words = reinterpret_cast<float*>(out);
  const Index panel_stride = (k + 1) / 2 * kMr;
  for (Index i = 0; i < m; i += kSlice) {
    const Index rows = smaller(kSlice, m - i);
    float inverse[kSlice], scales[kSlice];
    for (Index c = 0; c < rows; c += kLanes) {
      LaneRange range;
      for (Index p = 0; p < k; ++p) range.add_numbers(load_cols(columns[p] + i + c, rows - c));
      lane_scales(range, limit, scales + c, inverse + c);
    }
    for (Index c = 0; c < rows; ++c) scale[i + c] = scales[c];
    for (Index p = 0; p < k; p += 2 * kWords) {
      alignas(64) float packed[kWords * kSlice];
      const float* pointers[kWords];
      const Index count = smaller(kWords, (k - p + 1) / 2);
      for (Index q = 0; q < count; ++q) {
        const float* const even = columns[p + 2 * q] + i;
        const float* const odd = p + 2 * q + 1 < k ? columns[p + 2 * q + 1] + i : nullptr;
        float* const to = packed + q * kSlice;
        for (Index c = 0; c < rows; c += kLanes) {
          const Vec by = load(inverse + c);
          const Vec high = odd == nullptr ? zero() : whole(load_cols(odd + c, rows - c), by);
          store(to + c, low_halves(whole(load_cols(even + c, rows - c), by), high));
        }
        pointers[q] = to;
      }
      pack_a_columns(pointers, count, rows, words + i / kMr * panel_stride + p / 2 * kMr,
                     panel_stride);
    }
  }
}
