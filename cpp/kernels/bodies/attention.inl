// Streaming attention of floats.

void softmax_columns(const sam_rlx::SoftmaxColumnsArgs& s) noexcept {
  with_vectors(s.columns, [&](auto v) SAM_RLX_INLINED { softmax_vectors<v.value>(s); });
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
