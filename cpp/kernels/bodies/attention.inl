// Streaming softmax with queries in the lanes: one column of the tile is one query.

// Calls step(first, Int<n>) for runs of four rows, and of one at the end.
template <class Step>
SAM_RLX_INLINE void for_rows(Index count, Step step) {
  Index j = 0;
  for (; j + 4 <= count; j += 4) step(j, Int<4>{});
  for (; j < count; ++j) step(j, Int<1>{});
}

// The largest of scale * x + rel_h + rel_w, which replaces x, for a vector of columns.
SAM_RLX_INLINE Vec add_bias(const sam_rlx::SoftmaxColumnsArgs& s, Index lane, Vec largest) {
  float* x = s.scores + lane;
  const Vec scale = set1(s.scale);
  Index h = s.first_key / s.rel_width, w = s.first_key % s.rel_width;
  for (Index left = s.keys; left > 0; w = 0, ++h) {
    const Vec bias = load(s.rel_h + h * kNr + lane);
    const float* const column = s.rel_w + w * kNr + lane;
    const Index keys = smaller(s.rel_width - w, left);
    for_rows(keys, [&](Index j, auto n) SAM_RLX_INLINED {
      for_each<n.value>([&](auto i) SAM_RLX_INLINED {
        const Index at = (j + i.value) * kNr;
        const Vec y = fma(scale, load(x + at), add(bias, load(column + at)));
        store(x + at, y);
        largest = max(largest, y);
      });
    });
    x += keys * kNr;
    left -= keys;
  }
  return largest;
}

// The largest x of a vector of columns.
SAM_RLX_INLINE Vec column_max(const float* x, Index rows) {
  Vec largest[4];
  for (Vec& v : largest) v = load(x);
  for_rows(rows, [&](Index j, auto n) SAM_RLX_INLINED {
    for_each<n.value>([&](auto i) SAM_RLX_INLINED {
      largest[i.value] = max(largest[i.value], load(x + (j + i.value) * kNr));
    });
  });
  return max(max(largest[0], largest[1]), max(largest[2], largest[3]));
}

// Scores of a vector of columns become weights, once the largest one is known; what the tiles
// before left behind is shrunk to it.
SAM_RLX_INLINE void weigh(const sam_rlx::SoftmaxColumnsArgs& s, Index lane, Vec new_max) {
  float* const x = s.scores + lane;
  const Vec old_max = load(s.running_max + lane);
  const Vec scale = set1(s.rel_h != nullptr ? 1.0F : s.scale);
  const Vec offset = sub(zero(), new_max);
  Vec sums[4];
  for (Vec& sum : sums) sum = zero();
  for_rows(s.keys, [&](Index j, auto n) SAM_RLX_INLINED {
    Vec y[n.value];
    each_vector(
        y, [&](Vec& v, int i) SAM_RLX_INLINED { v = fma(scale, load(x + (j + i) * kNr), offset); });
    exp2(y);
    each_vector(y, [&](Vec& v, int i) SAM_RLX_INLINED {
      store(x + (j + i) * kNr, v);
      sums[i] = add(sums[i], v);
    });
  });
  const Vec sum = add(add(sums[0], sums[1]), add(sums[2], sums[3]));
  const Vec shrink = exp2(sub(old_max, new_max));
  store(s.running_max + lane, new_max);
  store(s.running_sum + lane, fma(load(s.running_sum + lane), shrink, sum));
  for (Index d = 0; s.first_key > 0 && d < s.value_dim; ++d) {
    float* const o = s.result + d * kNr + lane;
    store(o, mul(load(o), shrink));
  }
}

void softmax_columns(const sam_rlx::SoftmaxColumnsArgs& s) noexcept {
  for (Index lane = 0; lane < s.columns; lane += kLanes) {
    const Vec old_max = load(s.running_max + lane);
    weigh(s, lane,
          s.rel_h != nullptr
              ? add_bias(s, lane, old_max)
              : max(old_max, mul(set1(s.scale), column_max(s.scores + lane, s.keys))));
  }
}

// Scores of a tile of keys and all columns of a panel, with their terms, and the largest ones.
SAM_RLX_INLINE void score_tile(const sam_rlx::SoftmaxColumnsArgs& s, const TileArgs& t,
                               Vec (&largest)[kNv]) {
  Vec acc[kMr][kNv];
  for_each<kMr>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED { acc[r.value][v.value] = zero(); });
  });
  add_products<true>(t, acc);
  float* const out = s.scores + t.row * kNr;
  const auto each = [&](Index r, Index v, Vec y) SAM_RLX_INLINED {
    largest[v] = max(largest[v], y);
    store(out + r * kNr + v * kLanes, y);
  };
  if (s.rel_h == nullptr) {
    for_each<kMr>([&](auto r) SAM_RLX_INLINED {
      for_each<kNv>([&](auto v) SAM_RLX_INLINED { each(r.value, v.value, acc[r.value][v.value]); });
    });
    return;
  }
  const Vec scale = set1(s.scale);
  Index h = (s.first_key + t.row) / s.rel_width, w = (s.first_key + t.row) % s.rel_width;
  for_each<kMr>([&](auto r) SAM_RLX_INLINED {
    for_each<kNv>([&](auto v) SAM_RLX_INLINED {
      const Vec terms = add(load(s.rel_h + h * kNr + v.value * kLanes),
                            load(s.rel_w + w * kNr + v.value * kLanes));
      each(r.value, v.value, fma(scale, acc[r.value][v.value], terms));
    });
    if (++w == s.rel_width) {
      w = 0;
      ++h;
    }
  });
}

void score_softmax_columns(const sam_rlx::ScoreSoftmaxArgs& args) noexcept {
  const sam_rlx::SoftmaxColumnsArgs& s = args.softmax;
  const bool biased = s.rel_h != nullptr;
  sam_rlx::GemmArgs g;
  g.k = args.dim;
  g.a_row_stride = 1;
  g.a_k_stride = kMr;
  g.a_panel_stride = kMr * args.dim;
  g.b = args.queries;
  g.b_k_stride = kNr;
  g.b_panel_stride = kNr * args.dim;

  // Whole tiles in registers.
  Vec largest[kNv];
  for_each<kNv>([&](auto v) {
    largest[v.value] = biased ? load(s.running_max + v.value * kLanes) : set1(-__builtin_inff());
  });
  TileArgs t{};
  t.g = &g;
  t.b = g.b;
  t.k = g.k;
  const Index whole = s.columns == kNr ? s.keys / kMr * kMr : 0;
  for (t.row = 0; t.row < whole; t.row += kMr) {
    t.a = args.keys + t.row * args.dim;
    score_tile(s, t, largest);
  }
  // The others go through memory.
  sam_rlx::SoftmaxColumnsArgs rest = s;
  rest.scores += whole * kNr;
  rest.first_key += whole;
  rest.keys -= whole;
  if (rest.keys > 0) {
    g.m = rest.keys;
    g.n = s.columns;
    g.a = args.keys + whole * args.dim;
    g.c = rest.scores;
    g.c_row_stride = kNr;
    gemm(g);
  }
  for (Index v = 0; v * kLanes < s.columns; ++v) {
    const Index lane = v * kLanes;
    if (biased) {
      weigh(s, lane, add_bias(rest, lane, largest[v]));
      continue;
    }
    Vec most = largest[v];
    if (rest.keys > 0) most = max(most, column_max(rest.scores + lane, rest.keys));
    weigh(s, lane, max(load(s.running_max + lane), mul(set1(s.scale), most)));
  }
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
