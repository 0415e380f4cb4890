// Rows become the lanes of a panel: out[p * W + i] = rows[i][p], and 0 where rows[i] is null.
// out has k * W numbers.
template <int W>
void pack_rows(const float* const* rows, Index k, float* out) noexcept {
  constexpr int kGroups = (W + kLanes - 1) / kLanes;
  const Index whole = k / kLanes * kLanes;
  for (int group = 0; group < kGroups; ++group) {
    const Index first = group * kLanes;
    const Index width = smaller(W - first, kLanes);
    for (Index p = 0; p < k; p += kLanes) {
      const Index n = p < whole ? kLanes : k - p;
      Vec r[kLanes];
      for_each<kLanes>([&](auto i) {
        const float* const row = i.value < width ? rows[first + i.value] : nullptr;
        r[i.value] = row == nullptr ? zero() : load_cols(row + p, n);
      });
      transpose(r);
      for_each<kLanes>([&](auto i) {
        // What a narrow row writes too much, the next row replaces.
        if (i.value < n) {
          store_row(out + (p + i.value) * W + first, r[i.value], width, p + i.value + 1 < k);
        }
      });
    }
  }
}

void pack_a_rows(const float* const* rows, Index k, float* out) noexcept {
  pack_rows<kMr>(rows, k, out);
}

void pack_b_rows(const float* const* rows, Index k, float* out) noexcept {
  pack_rows<kNr>(rows, k, out);
}

void pack_a_columns(const float* const* columns, Index k, Index m, float* out,
                    Index panel_stride) noexcept {
  for (Index i = 0; i < m; i += kMr, out += panel_stride) {
    for (Index p = 0; p < k; ++p) {
      for (Index first = 0; first < kMr; first += kLanes) {
        const Index width = smaller(kLanes, kMr - first);
        const Vec x = load_cols(columns[p] + i + first, smaller(width, larger(m - i - first, 0)));
        store_row(out + p * kMr + first, x, width, p + 1 < k && first + kLanes >= kMr);
      }
    }
  }
}

void pack_weight(const float* weight, Index ldw, Index n, Index k, float* out) noexcept {
  for (Index j = 0; j < n; j += kNr) {
    const float* rows[kNr] = {};
    for (Index i = 0; i < smaller(kNr, n - j); ++i) rows[i] = weight + (j + i) * ldw;
    pack_rows<kNr>(rows, k, out + j * k);
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
