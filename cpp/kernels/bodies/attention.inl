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

void softmax_columns(const sam_rlx::SoftmaxColumnsArgs& s) noexcept {
  for (Index lane = 0; lane < s.columns; lane += kLanes) {
    float* const x = s.scores + lane;
    const Vec old_max = load(s.running_max + lane);
    const bool biased = s.rel_h != nullptr;
    const Vec scale = set1(biased ? 1.0F : s.scale);
    const Vec new_max =
        biased ? add_bias(s, lane, old_max) : max(old_max, mul(scale, column_max(x, s.keys)));
    const Vec offset = sub(zero(), new_max);
    Vec sums[4];
    for (Vec& sum : sums) sum = zero();
    for_rows(s.keys, [&](Index j, auto n) SAM_RLX_INLINED {
      Vec y[n.value];
      each_vector(y, [&](Vec& v, int i)
                         SAM_RLX_INLINED { v = fma(scale, load(x + (j + i) * kNr), offset); });
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
