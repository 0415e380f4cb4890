// Tiles of streaming attention: products that end as scores, or in the result.

// Computes the scores of kMr keys from `row` on, adds their terms of relative position, and updates
// `largest`. `products` is sum_products, or does what it does. Whole is false for the last keys of
// a block, which are fewer.
template <int V, bool Whole, class Products>
SAM_RLX_INLINE void score_tile(const sam_rlx::SoftmaxColumnsArgs& s, Index row, Products products,
                               Vec (&largest)[V]) {
  Vec acc[kMr][V];
  Index h = 0, w = 0;
  if (s.rel_h != nullptr) {
    h = (s.first_key + row) / s.rel_width;
    w = (s.first_key + row) % s.rel_width;
  }
  // The keys of most tiles lie in one row of the map: its terms stay in registers.
  const bool one_row = w + kMr <= s.rel_width;
  const auto finish = [&](auto first, auto end) SAM_RLX_INLINED {
    Vec row_terms[V];
    const auto load_row_terms = [&]() SAM_RLX_INLINED {
      each_vector(row_terms,
                  [&](Vec& y, int v) SAM_RLX_INLINED { y = load(s.rel_h + h * kNr + v * kLanes); });
    };
    const auto each_row = [&](auto add_terms_to) SAM_RLX_INLINED {
      for_each<end.value - first.value>([&](auto i) SAM_RLX_INLINED {
        constexpr int kRow = first.value + i.value;
        if (!Whole && row + kRow >= s.keys) return;
        float* const out = s.scores + (row + kRow) * kNr;
        add_terms_to(Int<kRow>{});
        for_each<V>([&](auto v) SAM_RLX_INLINED {
          largest[v.value] = max(largest[v.value], acc[kRow][v.value]);
          store(out + v.value * kLanes, acc[kRow][v.value]);
        });
      });
    };
    const auto add_terms = [&](auto r, const float* column_terms) SAM_RLX_INLINED {
      for_each<V>([&](auto v) SAM_RLX_INLINED {
        Vec& x = acc[r.value][v.value];
        x = add(add(x, row_terms[v.value]), load(column_terms + v.value * kLanes));
      });
    };
    if (s.rel_h == nullptr) {
      each_row([](auto) SAM_RLX_INLINED {});
    } else if (one_row) {
      load_row_terms();
      const float* const column_terms = s.rel_w + w * kNr;
      each_row([&](auto r) SAM_RLX_INLINED { add_terms(r, column_terms + r.value * kNr); });
    } else {
      each_row([&](auto r) SAM_RLX_INLINED {
        load_row_terms();
        add_terms(r, s.rel_w + w * kNr);
        if (++w == s.rel_width) {
          w = 0;
          ++h;
        }
      });
    }
  };
  products(acc, [&](auto by_rows) SAM_RLX_INLINED { by_rows(finish); });
}

// Multiplies kMr rows of the result, from `row` on, with `shrink` and adds the products of values
// and weights. `products` and Whole are as in score_tile.
template <int V, bool Whole, class Products>
SAM_RLX_INLINE void value_tile(const sam_rlx::SoftmaxColumnsArgs& s, Index row, Products products,
                               const Vec (&shrink)[V]) {
  Vec acc[kMr][V];
  float* const out = s.result + row * kNr;
  const auto finish = [&](auto first, auto end) SAM_RLX_INLINED {
    for_each<end.value - first.value>([&](auto i) SAM_RLX_INLINED {
      constexpr int kRow = first.value + i.value;
      if (!Whole && row + kRow >= s.value_dim) return;
      for_each<V>([&](auto v) SAM_RLX_INLINED {
        float* const o = out + kRow * kNr + v.value * kLanes;
        Vec& x = acc[kRow][v.value];
        if (s.first_key > 0) x = fma(shrink[v.value], load(o), x);
        store(o, x);
      });
    });
  };
  products(acc, [&](auto by_rows) SAM_RLX_INLINED { by_rows(finish); });
}
