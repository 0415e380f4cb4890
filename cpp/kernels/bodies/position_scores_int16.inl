// Scores of keys on positions, of integers of 16 bits: see position_scores.inl. A sum of the terms
// of row and column is one instruction for two numbers, and is computed again for each group of
// keys.

// Scores of R keys of position x, from map `first` on.
template <int R>
void position_keys_int16(const sam_rlx::PositionScoresInt16Args& a, Index x, Index first) noexcept {
  IntVec sums[R][kNv];
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED { sums[r.value][v.value] = int_zero(); });
  });
  const Index words = (a.depth + 1) / 2;
  const float* key = reinterpret_cast<const float*>(a.keys) + x * words * a.maps + first;
  const float* column = reinterpret_cast<const float*>(a.column) + x * words * kNr;
  const auto* row = reinterpret_cast<const float*>(a.row);
  for (Index left = words; left > 0; --left, key += a.maps, column += kNr, row += kNr) {
    Pairs terms[kNv];
    for_each<kNv>([&](auto v) SAM_RLX_INLINED {
      terms[v.value] =
          add_pairs(load_pairs(column + v.value * kLanes), load_pairs(row + v.value * kLanes));
    });
    for_each<R>([&](auto r) SAM_RLX_INLINED {
      const Pairs value = set1_pairs(key + r.value);
      for_each<kNv>([&](auto v)
                        SAM_RLX_INLINED { dot2(sums[r.value][v.value], value, terms[v.value]); });
    });
  }
  const float* const key_scale = a.key_scale + x * a.maps + first;
  float* const out = a.scores + (x * a.maps + first) * kNr;
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED {
      const Vec scale = mul(set1(key_scale[r.value]), load(a.query_scale + v.value * kLanes));
      store(out + r.value * kNr + v.value * kLanes, mul(to_float(sums[r.value][v.value]), scale));
    });
  });
}

using PositionInt16Function = void (*)(const sam_rlx::PositionScoresInt16Args&, Index,
                                       Index) noexcept;
struct PositionInt16Table {
  PositionInt16Function keys[kMr];  // [r - 1]: r keys
};
template <int... R>
constexpr PositionInt16Table make_position_int16_table(Ints<R...>) {
  return {{position_keys_int16<R + 1>...}};
}
constexpr PositionInt16Table kPositionsInt16 = make_position_int16_table(MakeInts<kMr>::type{});

void position_scores_int16(const sam_rlx::PositionScoresInt16Args& a) noexcept {
  for (Index x = 0; x < a.positions; ++x) {
    each_group<kMr>(
        a.maps, [&](Index first, Index count) { kPositionsInt16.keys[count - 1](a, x, first); });
  }
}
