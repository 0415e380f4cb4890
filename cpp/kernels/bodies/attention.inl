// Streaming softmax with queries in the lanes: one column of the tile is one query.

void softmax_columns(const sam_rlx::SoftmaxColumnsArgs& s) noexcept {
  const Vec scale = set1(s.scale);
  for (Index lane = 0; lane < s.columns; lane += kLanes) {
    float* const x = s.scores + lane;
    const Vec old_max = load(s.running_max + lane);
    Vec new_max = old_max;
    // Scores become scale * x + rel_h + rel_w, and the maximum is taken.
    if (s.rel_h != nullptr) {
      Index h = s.first_key / s.rel_width;
      Index w = s.first_key % s.rel_width;
      for (Index j = 0; j < s.keys;) {
        const Vec bias = load(s.rel_h + h * kNr + lane);
        for (; w < s.rel_width && j < s.keys; ++w, ++j) {
          const Vec y = fma(scale, load(x + j * kNr), add(bias, load(s.rel_w + w * kNr + lane)));
          store(x + j * kNr, y);
          new_max = max(new_max, y);
        }
        w = 0;
        ++h;
      }
    } else {
      for (Index j = 0; j < s.keys; ++j) {
        const Vec y = mul(scale, load(x + j * kNr));
        store(x + j * kNr, y);
        new_max = max(new_max, y);
      }
    }
    Vec sum = zero();
    for (Index j = 0; j < s.keys; ++j) {
      const Vec y = exp2(sub(load(x + j * kNr), new_max));
      store(x + j * kNr, y);
      sum = add(sum, y);
    }
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
