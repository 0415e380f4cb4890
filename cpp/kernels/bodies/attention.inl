// Streaming attention of floats.

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

// Computes the scores of a tile of keys that are floats.
template <class A, int V, bool Whole>
SAM_RLX_INLINE void score_floats(const sam_rlx::SoftmaxColumnsArgs& s, const TileArgs& t,
                                 Vec (&largest)[V]) {
  const auto products = [&](auto& acc, auto end)
                            SAM_RLX_INLINED { sum_products<A, false>(t, acc, end); };
  score_tile<V, Whole>(s, t.row, products, largest);
}

// Computes the scores of a block of packed keys.
template <int V>
SAM_RLX_INLINE void score_keys(const sam_rlx::AttendColumnsArgs& args, Vec (&largest)[V]) {
  const sam_rlx::SoftmaxColumnsArgs& s = args.softmax;
  TileArgs t{};
  t.a = args.keys;
  t.b = args.queries;
  t.k = args.dim;
  load_largest<V>(s, largest);
  for (; t.row + kMr <= s.keys; t.row += kMr, t.a += kMr * args.dim) {
    score_floats<PackedRows, V, true>(s, t, largest);
  }
  if (t.row < s.keys) score_floats<PackedRows, V, false>(s, t, largest);
}

// The same for keys that are not packed. They have no terms of relative position.
template <int V>
SAM_RLX_INLINE void score_key_rows(const sam_rlx::AttendColumnsArgs& args, Vec (&largest)[V]) {
  const sam_rlx::SoftmaxColumnsArgs& s = args.softmax;
  sam_rlx::GemmArgs g;
  g.k = args.dim;
  g.a.row_stride = args.row_stride;
  g.b = {args.queries, kNr, kNr * args.dim};
  TileArgs t{};
  t.g = &g;
  t.a = args.keys;
  t.b = g.b.data;
  t.k = g.k;
  load_largest<V>(s, largest);
  for (; t.row + kMr <= s.keys; t.row += kMr, t.a += kMr * args.row_stride) {
    score_floats<PlainRows, V, true>(s, t, largest);
  }
  if (t.row == s.keys) return;
  // The last keys are fewer than a tile has: they are multiplied like any other matrix.
  g.m = s.keys - t.row;
  g.n = s.columns;
  g.a.data = t.a;
  g.c = s.scores + t.row * kNr;
  g.c_row_stride = kNr;
  gemm(g);
  change_scores<V>(g.c, g.m, largest,
                   [](const float* x, Index, int) SAM_RLX_INLINED { return load(x); });
}

// Turns the scores of a block into weights, and adds them to the running sums. Returns in `shrink`
// the factor for the weights of the blocks before, 2^(largest before - largest).
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
  each_vector(shrink, [&](Vec& y, int v) SAM_RLX_INLINED {
    y = sub(load(s.running_max + v * kLanes), largest[v]);
  });
  exp2(shrink);
  each_vector(sum, [&](Vec& y, int v) SAM_RLX_INLINED {
    float* const running = s.running_sum + v * kLanes;
    store(s.running_max + v * kLanes, largest[v]);
    store(running, fma(load(running), shrink[v], y));
  });
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

void softmax_columns(const sam_rlx::SoftmaxColumnsArgs& s) noexcept {
  with_vectors(s.columns, [&](auto v) SAM_RLX_INLINED {
    Vec largest[v.value], shrink[v.value];
    bias_scores<v.value>(s, largest);
    weigh<v.value>(s, largest, shrink);
    shrink_result<v.value>(s, 0, s.value_dim, shrink);
  });
}

// Adds the weighted values of a block to the result.
template <class A, int V>
SAM_RLX_INLINE void add_values(const sam_rlx::AttendColumnsArgs& args, const Vec (&shrink)[V]) {
  const sam_rlx::SoftmaxColumnsArgs& s = args.softmax;
  sam_rlx::GemmArgs g;
  g.k = s.keys;
  g.a.row_stride = 1;
  g.a.k_stride = A::kPacked ? kMr : args.row_stride;
  g.b = {s.scores, kNr, kNr * s.keys};
  TileArgs t{};
  if constexpr (!A::kPacked) t.g = &g;
  t.a = args.values;
  t.b = g.b.data;
  t.k = g.k;
  const Index stride = A::kPacked ? args.value_stride : kMr;
  for (; t.row + kMr <= s.value_dim; t.row += kMr, t.a += stride) {
    const auto products = [&](auto& acc, auto end)
                              SAM_RLX_INLINED { sum_products<A, false>(t, acc, end); };
    value_tile<V, true>(s, t.row, products, shrink);
  }
  if (t.row == s.value_dim) return;
  // The last rows are fewer than a tile has: they are multiplied like any other matrix.
  shrink_result<V>(s, t.row, s.value_dim, shrink);
  g.m = s.value_dim - t.row;
  g.n = s.columns;
  g.a.data = t.a;
  g.c = s.result + t.row * kNr;
  g.c_row_stride = kNr;
  g.accumulate = s.first_key > 0;
  gemm(g);
}

// attend_columns for keys that are not packed. A function of its own, so that it does not share the
// registers of the one for packed keys.
SAM_RLX_NOINLINE void attend_rows(const sam_rlx::AttendColumnsArgs& args) noexcept {
  with_vectors(args.softmax.columns, [&](auto v) SAM_RLX_INLINED {
    Vec largest[v.value], shrink[v.value];
    score_key_rows<v.value>(args, largest);
    weigh<v.value>(args.softmax, largest, shrink);
    add_values<PlainRows, v.value>(args, shrink);
  });
}

void attend_columns(const sam_rlx::AttendColumnsArgs& args) noexcept {
  if (args.row_stride > 0) {
    attend_rows(args);
    return;
  }
  with_vectors(args.softmax.columns, [&](auto v) SAM_RLX_INLINED {
    Vec largest[v.value], shrink[v.value];
    if (args.keys != nullptr) {
      score_keys<v.value>(args, largest);
    } else {
      bias_scores<v.value>(args.softmax, largest);
    }
    weigh<v.value>(args.softmax, largest, shrink);
    add_values<PackedRows, v.value>(args, shrink);
  });
}

// rows[i][d] = result[d * kNr + i] / sum[i] for i < count.
void unpack_columns(const float* result, const float* sum, Index count, Index dim,
                    float* const* rows) noexcept {
  for (Index first = 0; first < count; first += kLanes) {
    const Vec inverse = div(set1(1.0F), load(sum + first));
    for (Index d = 0; d < dim; d += kLanes) {
      const Index n = smaller(dim - d, kLanes);
      Vec r[kLanes];
      for_each<kLanes>([&](auto i) {
        r[i.value] =
            i.value < n ? mul(load(result + (d + i.value) * kNr + first), inverse) : zero();
      });
      transpose(r);
      for_each<kLanes>([&](auto i) {
        if (first + i.value < count) {
          if (n == kLanes) {
            store(rows[first + i.value] + d, r[i.value]);
          } else {
            store_n(rows[first + i.value] + d, r[i.value], n);
          }
        }
      });
    }
  }
}
