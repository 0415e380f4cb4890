// Streaming attention whose products are of integers of 16 bits: see AttendInt16Args.
//
// The weights of a block of keys are integers up to kInt16Weight, which stands for the largest
// weight of the block, so that a block of small weights has as many of them as others. `grow` is
// what it counts beside the blocks before.

// acc(r, j) = scale(r, v) * sum over words p < words of dot2(A(r, p), B(p, j)).
template <int V, class Scale, class End>
SAM_RLX_INLINE void sum_int16(const float* a, const float* b, Index words, Vec (&acc)[kMr][V],
                              Scale scale, End end) {
  IntVec sums[kMr][V];
  sum_words(a, b, words, sums);
  for_each<kMr>([&](auto r) SAM_RLX_INLINED {
    for_each<V>([&](auto v) SAM_RLX_INLINED {
      acc[r.value][v.value] = mul(to_float(sums[r.value][v.value]), scale(r, v));
    });
  });
  end([](auto finish) SAM_RLX_INLINED { finish(Int<0>{}, Int<kMr>{}); });
}

// Computes the scores of a block of keys and their largest.
template <int V>
SAM_RLX_INLINE void score_int16(const sam_rlx::AttendInt16Args& args, Vec (&largest)[V]) {
  const sam_rlx::SoftmaxColumnsArgs& s = args.softmax;
  const auto* keys = reinterpret_cast<const float*>(args.keys);
  const auto* const queries = reinterpret_cast<const float*>(args.queries);
  const Index words = (args.dim + 1) / 2;
  Vec query_scale[V];
  each_vector(query_scale,
              [&](Vec& y, int v) SAM_RLX_INLINED { y = load(args.query_scale + v * kLanes); });
  each_vector(largest, [](Vec& y, int) SAM_RLX_INLINED { y = set1(-__builtin_inff()); });
  for (Index row = 0; row < s.keys; row += kMr, keys += words * kMr) {
    const auto products = [&](auto& acc, auto end) SAM_RLX_INLINED {
      const auto scale = [&](auto r, auto v) SAM_RLX_INLINED {
        return mul(set1(args.key_scale[row + r.value]), query_scale[v.value]);
      };
      sum_int16(keys, queries, words, acc, scale, end);
    };
    if (row + kMr <= s.keys) {
      score_tile<V, true>(s, row, products, largest);
    } else {
      score_tile<V, false>(s, row, products, largest);
    }
  }
}

// Finds the largest of scores that lie in memory.
template <int V>
SAM_RLX_INLINE void largest_score(const sam_rlx::SoftmaxColumnsArgs& s, Vec (&largest)[V]) {
  each_vector(largest, [](Vec& y, int) SAM_RLX_INLINED { y = set1(-__builtin_inff()); });
  change_scores<V>(s.scores, s.keys, largest,
                   [](const float* x, Index, int) SAM_RLX_INLINED { return load(x); });
}

// Turns the scores of a block into weights, two keys in each word, and adds them to the running
// sums. The words lie where the scores lay.
template <int V>
SAM_RLX_INLINE void weigh_int16(const sam_rlx::SoftmaxColumnsArgs& s, const Vec (&largest)[V],
                                Vec (&shrink)[V], Vec (&grow)[V]) {
  Vec sum[V];
  each_vector(sum, [](Vec& y, int) SAM_RLX_INLINED { y = zero(); });
  // The weights of rows of scores, from row j on, as whole numbers: see kWhole.
  const auto weights = [&](Index j, auto& y) SAM_RLX_INLINED {
    each_vector(y, [&](Vec& x, int i) SAM_RLX_INLINED {
      x = sub(load(s.scores + (j + i / V) * kNr + i % V * kLanes), largest[i % V]);
    });
    exp2(y);
    each_vector(y, [&](Vec& x, int i) SAM_RLX_INLINED {
      x = fma(x, set1(static_cast<float>(sam_rlx::kInt16Weight)), set1(kWhole));
      sum[i % V] = add(sum[i % V], sub(x, set1(kWhole)));
    });
  };
  const auto to_words = [&](Index j, int v)
                            SAM_RLX_INLINED { return s.scores + j / 2 * kNr + v * kLanes; };
  Index j = 0;
  const auto pairs = [&](auto count) SAM_RLX_INLINED {
    for (; j + 2 * count.value <= s.keys; j += 2 * count.value) {
      Vec y[2 * count.value * V];
      weights(j, y);
      for_each<count.value>([&](auto i) SAM_RLX_INLINED {
        for_each<V>([&](auto v) SAM_RLX_INLINED {
          const Vec& even = y[2 * i.value * V + v.value];
          store(to_words(j + 2 * i.value, v.value), low_halves(even, (&even)[V]));
        });
      });
    }
  };
  pairs(Int<(kExpVectors >= 4 * V ? kExpVectors / (2 * V) : 1)>{});
  pairs(Int<1>{});
  if (j < s.keys) {
    Vec y[V];
    weights(j, y);
    each_vector(
        y, [&](Vec& x, int v) SAM_RLX_INLINED { store(to_words(j, v), low_halves(x, zero())); });
  }
  Vec most[V];
  each_vector(most, [&](Vec& y, int v) SAM_RLX_INLINED {
    const Vec before = load(s.running_max + v * kLanes);
    y = max(before, largest[v]);
    shrink[v] = sub(before, y);
    grow[v] = sub(largest[v], y);
    store(s.running_max + v * kLanes, y);
  });
  exp2(shrink);
  exp2(grow);
  each_vector(sum, [&](Vec& y, int v) SAM_RLX_INLINED {
    float* const running = s.running_sum + v * kLanes;
    store(running, fma(load(running), shrink[v], mul(y, grow[v])));
  });
}

// Adds the weighted values of a block to the result.
template <int V>
SAM_RLX_INLINE void add_values_int16(const sam_rlx::AttendInt16Args& args, const Vec (&shrink)[V],
                                     const Vec (&grow)[V]) {
  const sam_rlx::SoftmaxColumnsArgs& s = args.softmax;
  const Index words = (s.keys + 1) / 2;
  const auto* values = reinterpret_cast<const float*>(args.values);
  for (Index row = 0; row < s.value_dim; row += kMr, values += words * kMr) {
    const auto products = [&](auto& acc, auto end) SAM_RLX_INLINED {
      const auto scale = [&](auto r, auto v) SAM_RLX_INLINED {
        return mul(set1(args.value_scale[row + r.value]), grow[v.value]);
      };
      sum_int16(values, s.scores, words, acc, scale, end);
    };
    if (row + kMr <= s.value_dim) {
      value_tile<V, true>(s, row, products, shrink);
    } else {
      value_tile<V, false>(s, row, products, shrink);
    }
  }
}

void attend_int16(const sam_rlx::AttendInt16Args& args) noexcept {
  with_vectors(args.softmax.columns, [&](auto v) SAM_RLX_INLINED {
    Vec largest[v.value], shrink[v.value], grow[v.value];
    if (args.keys != nullptr) {
      score_int16<v.value>(args, largest);
    } else {
      largest_score<v.value>(args.softmax, largest);
    }
    weigh_int16<v.value>(args.softmax, largest, shrink, grow);
    add_values_int16<v.value>(args, shrink, grow);
  });
}
