// out[p * W + i] = r[p][i] for p < n and i < width. A row that is narrower than a vector is stored
// as a whole vector, whose surplus lanes the next row overwrites. The `last` row has no next one
// and is stored in part.
template <int W>
SAM_RLX_INLINE void store_rows(float* out, const Vec (&r)[kLanes], Index n, Index width,
                               bool last) {
  for_each<kLanes>([&](auto p) SAM_RLX_INLINED {
    if (p.value < n) {
      store_row(out + p.value * W, r[p.value], width, p.value + 1 < n || !last);
    }
  });
}

// Packs W rows into a panel, in which each row becomes a lane: out[p * W + i] = change(rows[i][p]),
// and change(0) where rows[i] is null. out has k * W numbers.
template <int W, class F>
SAM_RLX_INLINE void pack_rows(const float* const* rows, Index k, float* out, F change) {
  for_each<(W + kLanes - 1) / kLanes>([&](auto group) SAM_RLX_INLINED {
    constexpr int kFirst = group.value * kLanes;
    constexpr int kWidth = W - kFirst < kLanes ? W - kFirst : kLanes;
    // Packs n numbers of each row, from p on.
    const auto pack = [&](Index p, Index n, auto load_row) SAM_RLX_INLINED {
      Vec r[kLanes];
      for_each<kLanes>([&](auto i) SAM_RLX_INLINED {
        r[i.value] = i.value < kWidth ? load_row(rows[kFirst + i.value % kWidth]) : zero();
      });
      transpose(r);
      each_vector(r, [&](Vec& x, int) SAM_RLX_INLINED { x = change(x); });
      store_rows<W>(out + p * W + kFirst, r, n, kWidth, p + n == k);
    };
    bool complete = true;
    for (int i = 0; i < kWidth; ++i) complete = complete && rows[kFirst + i] != nullptr;
    Index p = 0;
    for (; complete && p + kLanes <= k; p += kLanes) {
      pack(p, kLanes, [&](const float* row) SAM_RLX_INLINED { return load(row + p); });
    }
    for (; p < k; p += kLanes) {
      const Index n = smaller(kLanes, k - p);
      pack(p, n, [&](const float* row) SAM_RLX_INLINED {
        return row == nullptr ? zero() : load_cols(row + p, n);
      });
    }
  });
}

void pack_a_rows(const float* const* rows, Index k, float* out) noexcept {
  pack_rows<kMr>(rows, k, out, [](Vec x) SAM_RLX_INLINED { return x; });
}

void pack_b_rows(const float* const* rows, Index k, float scale, float* out) noexcept {
  pack_rows<kNr>(rows, k, out, [&](Vec x) SAM_RLX_INLINED { return mul(set1(scale), x); });
}

void pack_a_columns(const float* const* columns, Index k, Index m, float* out,
                    Index panel_stride) noexcept {
  for (Index i = 0; i < m; i += kMr, out += panel_stride) {
    for (Index first = 0; first < kMr; first += kLanes) {
      const Index width = smaller(kLanes, kMr - first);
      const Index valid = smaller(width, larger(m - i - first, 0));
      for (Index p = 0; p < k; p += kLanes) {
        const Index n = smaller(kLanes, k - p);
        Vec r[kLanes];
        for_each<kLanes>([&](auto j) SAM_RLX_INLINED {
          r[j.value] = j.value < n ? load_cols(columns[p + j.value] + i + first, valid) : zero();
        });
        store_rows<kMr>(out + p * kMr + first, r, n, width, p + n == k || first + kLanes < kMr);
      }
    }
  }
}

void pack_weight(const float* weight, Index ldw, Index n, Index k, float* out) noexcept {
  for (Index j = 0; j < n; j += kNr) {
    const float* rows[kNr] = {};
    for (Index i = 0; i < smaller(kNr, n - j); ++i) rows[i] = weight + (j + i) * ldw;
    pack_rows<kNr>(rows, k, out + j * k, [](Vec x) SAM_RLX_INLINED { return x; });
  }
}

void transpose_block(const float* x, Index x_stride, Index rows, Index cols, float* out,
                     Index out_stride) noexcept {
  for (Index i = 0; i < rows; i += kLanes) {
    const Index height = smaller(kLanes, rows - i);
    for (Index j = 0; j < cols; j += kLanes) {
      const Index width = smaller(kLanes, cols - j);
      Vec r[kLanes];
      for_each<kLanes>([&](auto l) {
        const bool inside = l.value < height;
        r[l.value] = inside ? load_cols(x + (i + l.value) * x_stride + j, width) : zero();
      });
      transpose(r);
      for_each<kLanes>([&](auto l) {
        if (l.value < width) {
          float* const to = out + (j + l.value) * out_stride + i;
          if (height == kLanes) {
            store(to, r[l.value]);
          } else {
            store_n(to, r[l.value], height);
          }
        }
      });
    }
  }
}
