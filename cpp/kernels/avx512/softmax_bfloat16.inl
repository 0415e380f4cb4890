// softmax_columns whose weights leave as bfloat16, for processors that have instructions for those.

// Stores 16 pairs, rounded to nearest even. Numbers that are not normal become zero: no weight is.
SAM_RLX_INLINE void store_pairs(std::uint16_t* p, Vec even, Vec odd) {
  alignas(64) static constexpr std::uint16_t kInTurns[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd.v, even.v));
  _mm512_storeu_si512(p, _mm512_permutexvar_epi16(_mm512_load_si512(kInTurns), halves));
}

template <int V>
SAM_RLX_INLINE void softmax_pairs(const sam_rlx::SoftmaxColumnsArgs& s, std::uint16_t* weights) {
  Vec largest[V], minus[V], sum[V], shrink[V];
  Vec scale = set1(1.0F);
  if (s.rel_h == nullptr) {
    scale = set1(s.scale);  // scores are scaled once more, and not stored
    load_largest<V>(s, largest);
    change_scores<V>(s.scores, s.keys, largest, [&](const float* x, Index, int) SAM_RLX_INLINED {
      return mul(scale, load(x));
    });
  } else {
    bias_scores<V>(s, largest);
  }
  for_each<V>([&](auto v) SAM_RLX_INLINED {
    minus[v.value] = sub(zero(), largest[v.value]);
    sum[v.value] = zero();
  });
  constexpr int kPairs = kExpVectors / V / 2;
  const auto weigh_rows = [&](Index row, auto rows) SAM_RLX_INLINED {
    Vec y[rows.value * V];
    each_vector(y, [&](Vec& x, int i) SAM_RLX_INLINED {
      x = fma(scale, load(s.scores + (row + i / V) * kNr + i % V * kLanes), minus[i % V]);
    });
    exp2(y);
    each_vector(y, [&](Vec& x, int i) SAM_RLX_INLINED { sum[i % V] = add(sum[i % V], x); });
    for_each<(rows.value + 1) / 2 * V>([&](auto i) SAM_RLX_INLINED {
      constexpr int kEven = i.value / V * 2 * V + i.value % V, kOdd = kEven + V;
      std::uint16_t* const out = weights + (row + i.value / V * 2) * kNr + i.value % V * 2 * kLanes;
      if constexpr (kOdd < rows.value * V) {
        store_pairs(out, y[kEven], y[kOdd]);
      } else {
        store_pairs(out, y[kEven], zero());
      }
    });
  };
  for_rows<kPairs>(s.keys / 2, [&](Index pair, auto n)
                                   SAM_RLX_INLINED { weigh_rows(2 * pair, Int<2 * n.value>{}); });
  if (s.keys % 2 == 1) weigh_rows(s.keys - 1, Int<1>{});
  constexpr Index kDepth = sam_rlx::kBFloat16Depth;
  const Index depth = (s.keys + kDepth - 1) / kDepth * kDepth;
  for (Index row = (s.keys + 1) / 2 * 2; row < depth; row += 2) {
    for (Index v = 0; v < V; ++v) store_pairs(weights + row * kNr + v * 2 * kLanes, zero(), zero());
  }
  add_sums<V>(s, largest, sum, shrink);
  shrink_result<V>(s, 0, s.value_dim, shrink);
}

void softmax_bfloat16(const sam_rlx::SoftmaxColumnsArgs& s, std::uint16_t* weights) noexcept {
  with_vectors(s.columns, [&](auto v) SAM_RLX_INLINED { softmax_pairs<v.value>(s, weights); });
}
