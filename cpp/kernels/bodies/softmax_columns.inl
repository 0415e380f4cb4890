// Streaming attention: keys are taken in blocks, so that the matrix of all scores is never stored.
// For each block, the scores of its keys are computed and turned into weights 2^(score - largest),
// and the weighted values are added to the result. `largest` is each query's largest score so far.
// When a block has a larger one, the sum of weights and the result of the blocks before are
// multiplied with a factor (`shrink`), as if they had been computed with the new largest score. In
// the end the result is divided by the sum of weights (unpack_columns).
//
// Queries lie in the lanes: one column of the scores is one query, one row is one key. V is the
// number of vectors in a row.

constexpr int kExpVectors = kLanes > 8 ? 6 : 4;  // vectors of exponentials that fit the registers

// Calls f(Int<V>) with the number of vectors that hold `columns` queries.
template <class F>
SAM_RLX_INLINE void with_vectors(Index columns, F f) {
  for_each<kNv>([&](auto v) SAM_RLX_INLINED {
    if (columns == (v.value + 1) * kLanes) f(Int<v.value + 1>{});
  });
}

// Calls step(first, Int<N>{}) for each run of N rows, then step(first, Int<1>{}) for each row that
// is left.
template <int N, class Step>
SAM_RLX_INLINE void for_rows(Index count, Step step) {
  Index j = 0;
  for (; j + N <= count; j += N) step(j, Int<N>{});
  for (; j < count; ++j) step(j, Int<1>{});
}
template <int V>
constexpr int kRowsAtOnce = 4 / V;  // docs/develop/optimizations.md: four-rows

// Calls change(x, row, vector) for all scores, and updates `largest` with the results.
template <int V, class F>
SAM_RLX_INLINE void change_scores(float* scores, Index rows, Vec (&largest)[V], F change) {
  constexpr int kRows = kRowsAtOnce<V>;
  Vec most[kRows * V];
  each_vector(most, [&](Vec& y, int i) SAM_RLX_INLINED { y = largest[i % V]; });
  for_rows<kRows>(rows, [&](Index j, auto n) SAM_RLX_INLINED {
    for_each<n.value * V>([&](auto i) SAM_RLX_INLINED {
      float* const x = scores + (j + i.value / V) * kNr + i.value % V * kLanes;
      most[i.value] = max(most[i.value], change(x, j + i.value / V, i.value % V));
    });
  });
  each_vector(most,
              [&](Vec& y, int i) SAM_RLX_INLINED { largest[i % V] = max(largest[i % V], y); });
}

// Loads the largest scores of the blocks before.
template <int V>
SAM_RLX_INLINE void load_largest(const sam_rlx::SoftmaxColumnsArgs& s, Vec (&largest)[V]) {
  each_vector(largest,
              [&](Vec& y, int v) SAM_RLX_INLINED { y = load(s.running_max + v * kLanes); });
}

// Scales scores that lie in memory, adds their terms of relative position if there are any, and
// updates `largest`.
template <int V>
SAM_RLX_INLINE void bias_scores(const sam_rlx::SoftmaxColumnsArgs& s, Vec (&largest)[V]) {
  const Vec scale = set1(s.scale);
  load_largest<V>(s, largest);
  if (s.rel_h == nullptr && s.scale == 1.0F) {
    change_scores<V>(s.scores, s.keys, largest,
                     [](const float* x, Index, int) SAM_RLX_INLINED { return load(x); });
  } else if (s.rel_h == nullptr) {
    change_scores<V>(s.scores, s.keys, largest, [&](float* x, Index, int) SAM_RLX_INLINED {
      const Vec y = mul(scale, load(x));
      store(x, y);
      return y;
    });
  } else {
    Index h = s.first_key / s.rel_width, w = s.first_key % s.rel_width;
    for (Index first = 0; first < s.keys; w = 0, ++h) {
      Vec bias[V];
      each_vector(bias,
                  [&](Vec& y, int v) SAM_RLX_INLINED { y = load(s.rel_h + h * kNr + v * kLanes); });
      const float* const column = s.rel_w + w * kNr;
      const Index keys = smaller(s.rel_width - w, s.keys - first);
      change_scores<V>(s.scores + first * kNr, keys, largest,
                       [&](float* x, Index j, int v) SAM_RLX_INLINED {
                         const Vec terms = add(bias[v], load(column + j * kNr + v * kLanes));
                         const Vec y = fma(scale, load(x), terms);
                         store(x, y);
                         return y;
                       });
      first += keys;
    }
  }
}

// Adds the sums of a block's weights to the running ones. Returns in `shrink` the factor for the
// weights of the blocks before, 2^(largest before - largest).
template <int V>
SAM_RLX_INLINE void add_sums(const sam_rlx::SoftmaxColumnsArgs& s, const Vec (&largest)[V],
                             const Vec (&sum)[V], Vec (&shrink)[V]) {
  each_vector(shrink, [&](Vec& y, int v) SAM_RLX_INLINED {
    y = sub(load(s.running_max + v * kLanes), largest[v]);
  });
  exp2(shrink);
  for_each<V>([&](auto v) SAM_RLX_INLINED {
    float* const running = s.running_sum + v.value * kLanes;
    store(s.running_max + v.value * kLanes, largest[v.value]);
    store(running, fma(load(running), shrink[v.value], sum[v.value]));
  });
}

// Turns the scores of a block into weights, and adds them to the running sums: see add_sums.
template <int V>
SAM_RLX_INLINE void weigh(const sam_rlx::SoftmaxColumnsArgs& s, const Vec (&largest)[V],
                          Vec (&shrink)[V]) {
  Vec sum[V];
  each_vector(sum, [](Vec& y, int) SAM_RLX_INLINED { y = zero(); });
  for_rows<kExpVectors / V>(s.keys, [&](Index j, auto n) SAM_RLX_INLINED {
    const auto at = [&](int i)
                        SAM_RLX_INLINED { return s.scores + (j + i / V) * kNr + i % V * kLanes; };
    Vec y[n.value * V];
    each_vector(y, [&](Vec& x, int i) SAM_RLX_INLINED { x = sub(load(at(i)), largest[i % V]); });
    exp2(y);
    each_vector(y, [&](Vec& x, int i) SAM_RLX_INLINED {
      store(at(i), x);
      sum[i % V] = add(sum[i % V], x);
    });
  });
  add_sums<V>(s, largest, sum, shrink);
}

// Multiplies rows [first, end) of the result of the blocks before with `shrink`.
template <int V>
SAM_RLX_INLINE void shrink_result(const sam_rlx::SoftmaxColumnsArgs& s, Index first, Index end,
                                  const Vec (&shrink)[V]) {
  if (s.first_key == 0) return;
  for (Index d = first; d < end; ++d) {
    for_each<V>([&](auto v) SAM_RLX_INLINED {
      float* const o = s.result + d * kNr + v.value * kLanes;
      store(o, mul(load(o), shrink[v.value]));
    });
  }
}

template <int V>
SAM_RLX_INLINE void softmax_vectors(const sam_rlx::SoftmaxColumnsArgs& s) {
  Vec largest[V], shrink[V];
  bias_scores<V>(s, largest);
  weigh<V>(s, largest, shrink);
  shrink_result<V>(s, 0, s.value_dim, shrink);
}
