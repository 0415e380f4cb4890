// Scores of a few keys on each of many positions. Queries are in the lanes. All keys of a position
// are multiplied with the same sum, the query's terms of its row and of its column: the first group
// of keys computes it and stores it for the others.

// Scores of R keys of position x, from map `first` on. With Sum, the terms of row and column are
// added and stored in a.sum; without, their sum is read from there.
template <int R, bool Sum>
SAM_RLX_INLINE void position_keys(const sam_rlx::PositionScoresArgs& a, Index x, Index first) {
  Vec acc[R][kNv];
  for_each<R>([&](auto r) { for_each<kNv>([&](auto v) { acc[r.value][v.value] = zero(); }); });
  const float* key = a.keys + x * a.depth * a.maps + first;
  const float* column = a.column + x * a.depth * kNr;
  const float* row = a.row;
  float* sum = a.sum;
  for (Index k = a.depth; k > 0; --k, key += a.maps, sum += kNr) {
    Vec b[kNv];
    if constexpr (Sum) {
      for_each<kNv>([&](auto v) {
        b[v.value] = add(load(column + v.value * kLanes), load(row + v.value * kLanes));
        store(sum + v.value * kLanes, b[v.value]);
      });
      column += kNr;
      row += kNr;
    } else {
      for_each<kNv>([&](auto v) { b[v.value] = load(sum + v.value * kLanes); });
    }
    for_each<R>([&](auto r) {
      const Vec value = set1(key[r.value]);
      for_each<kNv>(
          [&](auto v) { acc[r.value][v.value] = fma(value, b[v.value], acc[r.value][v.value]); });
    });
  }
  float* const out = a.scores + (x * a.maps + first) * kNr;
  for_each<R>([&](auto r) {
    for_each<kNv>(
        [&](auto v) { store(out + r.value * kNr + v.value * kLanes, acc[r.value][v.value]); });
  });
}

template <int R>
void position_keys_first(const sam_rlx::PositionScoresArgs& a, Index x, Index first) noexcept {
  position_keys<R, true>(a, x, first);
}
template <int R>
void position_keys_later(const sam_rlx::PositionScoresArgs& a, Index x, Index first) noexcept {
  position_keys<R, false>(a, x, first);
}

using PositionFunction = void (*)(const sam_rlx::PositionScoresArgs&, Index, Index) noexcept;
struct PositionTable {
  PositionFunction first[kMr];  // [r - 1]: r keys
  PositionFunction later[kMr];
};
template <int... R>
constexpr PositionTable make_position_table(Ints<R...>) {
  return {{position_keys_first<R + 1>...}, {position_keys_later<R + 1>...}};
}
constexpr PositionTable kPositions = make_position_table(MakeInts<kMr>::type{});

void position_scores(const sam_rlx::PositionScoresArgs& a) noexcept {
  for (Index x = 0; x < a.positions; ++x) {
    each_group<kMr>(a.maps, [&](Index first, Index count) {
      (first == 0 ? kPositions.first : kPositions.later)[count - 1](a, x, first);
    });
  }
}

void pair_products(const sam_rlx::PairProductsArgs& a) noexcept {
  for (Index k = 0; k < a.depth; ++k) {
    const float* const weight = a.weight + k * 2 * a.pairs;
    for (Index j = 0; j < a.pairs; ++j) {
      const Vec re = set1(weight[j]);
      const Vec im = set1(weight[a.pairs + j]);
      const float* const query = a.query + j * kNr;
      const Index at = (k * a.pairs + j) * kNr;
      for_each<kNv>([&](auto v) {
        const Vec q_re = load(query + v.value * kLanes);
        const Vec q_im = load(query + a.pairs * kNr + v.value * kLanes);
        store(a.even + at + v.value * kLanes, fma(im, q_im, mul(re, q_re)));
        store(a.odd + at + v.value * kLanes, fnma(im, q_re, mul(re, q_im)));
      });
    }
  }
}
