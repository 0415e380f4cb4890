// Sums of products in a register tile of kMr x kNr; kMr and kNv (vectors of a row) come from the
// ISA.

constexpr Index kLine = 64 / sizeof(float);

// From the ISA come also: kMaxKc, the longest block of the inner dimension; whether the next panel
// of B is fetched, or the rows of B some steps ahead; and kThirdFromMemory, whether every third
// number of A goes from memory straight into its sums. That is one instruction less for each, which
// counts where a core works for two threads at once, and one load more: with every second one, a
// core that loads two vectors at a time has too many.
// And kLastRows: how many rows of a whole tile complete their sums together; all, where a store
// does not keep a multiply-add from its unit.
// docs/optimizations.md: next-panel, fetch-ahead, third-from-memory, last-rows.
constexpr Index gemm_k_block(Index k) {
  const Index blocks = (k + kMaxKc - 1) / kMaxKc;
  return blocks <= 1 ? k : ((k + blocks - 1) / blocks + 7) / 8 * 8;
}

// Where a tile's numbers of A are: packed, its rows side by side,
class PackedRows {
 public:
  static constexpr bool kPacked = true;

  SAM_RLX_INLINE explicit PackedRows(const TileArgs& t) : a_(t.a) {}
  // A(Row, step), counted from where it has moved to.
  template <int Row>
  SAM_RLX_INLINE const float* at(Index step) const {
    return a_ + step * kMr + Row;
  }
  SAM_RLX_INLINE void move(Index steps) { a_ += steps * kMr; }

 private:
  const float* a_;
};

// or anywhere. Every third row has a pointer: a processor has too few registers for all.
class PlainRows {
 public:
  static constexpr bool kPacked = false;

  SAM_RLX_INLINE explicit PlainRows(const TileArgs& t)
      : row_stride_(t.g->a.row_stride), k_stride_(t.g->a.k_stride) {
    for_each<kThirds>([&](auto i)
                          SAM_RLX_INLINED { a_[i.value] = t.a + 3 * i.value * row_stride_; });
  }
  template <int Row>
  SAM_RLX_INLINE const float* at(Index) const {
    return a_[Row / 3] + Row % 3 * row_stride_;
  }
  SAM_RLX_INLINE void move(Index steps) {
    for_each<kThirds>([&](auto i) SAM_RLX_INLINED { a_[i.value] += steps * k_stride_; });
  }

 private:
  static constexpr int kThirds = (kMr + 2) / 3;
  const float* a_[kThirds];
  Index row_stride_, k_stride_;
};

// Adds the products of inner index `step` for rows [First, First + Rows). Fetch: what lies `ahead`
// of B is fetched.
template <bool Fetch, int First, int Rows, class A, int R, int V>
SAM_RLX_INLINE void add_products(const A& a, Index step, const float* b, Index ahead,
                                 Vec (&acc)[R][V]) {
  Vec bv[V];
  if constexpr (Fetch && kPrefetchSteps > 0 && First == 0) {
    for_each<V>([&](auto v) SAM_RLX_INLINED { SAM_RLX_PREFETCH(b + ahead + v.value * kLanes); });
  }
  for_each<V>([&](auto v) SAM_RLX_INLINED { bv[v.value] = load(b + v.value * kLanes); });
  for_each<Rows>([&](auto i) SAM_RLX_INLINED {
    constexpr int kRow = First + i.value;
    const float* const position = a.template at<kRow>(step);
    const auto add_row = [&](auto number) SAM_RLX_INLINED {
      for_each<V>([&](auto v)
                      SAM_RLX_INLINED { add_product(acc[kRow][v.value], number, bv[v.value]); });
    };
    if constexpr (kThirdFromMemory && kRow % 3 == 0) {
      add_row(position);
    } else {
      add_row(set1(*position));
    }
  });
}

constexpr int kSteps = 8;  // of a turn of the products (docs/optimizations.md: eight-steps)

// The tile's lines of the residual, or else of C. A row of them comes in each of the first turns,
// and a line of the next panel in each of the last ones: more at once than a core can wait for, and
// the products would wait. Where turns are few, or B is not packed, all lines come at once.
struct TileLines {
  const float* first;
  Index stride;
};
SAM_RLX_INLINE TileLines lines_of(const TileArgs& t) {
  const sam_rlx::GemmArgs& g = *t.g;
  const bool residual = t.last && g.residual != nullptr;
  const Index stride = residual ? g.residual_row_stride : g.c_row_stride;
  return {(residual ? g.residual : g.c) + t.row * stride + t.col, stride};
}

template <int R, int V>
SAM_RLX_INLINE void clear(Vec (&acc)[R][V]) {
  for_each<R>([&](auto r) SAM_RLX_INLINED {
    each_vector(acc[r.value], [](Vec& x, int) SAM_RLX_INLINED { x = zero(); });
  });
}

// How many rows of a tile complete their sums together.
template <int R, int V>
constexpr int kRowsTogether = R == kMr && V == kNv ? kLastRows : R;

// Sums the products of a tile. end(by_rows) is called once, and calls by_rows(finish), which
// calls finish(Int<first>, Int<end>) for rows whose sums are complete. With PackedRows B(p, j) is
// b[p * kNr + j]. Fetch: what comes next of B is not in the caches.
template <class A, bool Fetch, int R, int V, class End>
SAM_RLX_INLINE void sum_products(const TileArgs& t, Vec (&acc)[R][V], End end) {
  clear(acc);
  A a(t);
  const float* b = t.b;
  const Index b_step = A::kPacked ? kNr : t.g->b.k_stride;
  Index ahead = A::kPacked || t.packed_b ? kPrefetchSteps * kNr : 0;
  // Steps for some of the rows. One move for all is cheaper where A is packed.
  const auto multiply = [&](auto count, auto first, auto rows, A& from) SAM_RLX_INLINED {
    for_each<count.value>([&](auto p) SAM_RLX_INLINED {
      const float* const b_row = b + p.value * b_step;
      add_products<Fetch, first.value, rows.value>(from, p.value, b_row, ahead, acc);
      if constexpr (!A::kPacked) from.move(1);
    });
    if constexpr (A::kPacked) from.move(count.value);
  };
  const auto steps = [&](auto count) SAM_RLX_INLINED {
    multiply(count, Int<0>{}, Int<R>{}, a);
    b += count.value * b_step;
  };
  const Index fetching = Fetch && kPrefetchPanel ? kSteps * t.next_lines : 0;
  constexpr int kGroup = kRowsTogether<R, V>;
  const bool last_turn = kGroup < R && t.k >= kSteps;
  Index p = last_turn ? t.k - kSteps : t.k;
  const bool by_turns = A::kPacked || (t.packed_b && t.k >= kSteps * (R - 2));
  if (Fetch && !by_turns) {
    prefetch_tile<R, V>(t);
  } else if (Fetch) {
    const TileLines lines = lines_of(t);
    const float* line = lines.first;
    const Index rest = p - smaller(R, (p - fetching) / kSteps) * kSteps;
    for (; p > rest; p -= kSteps, line += lines.stride) {
      for_each<V>([&](auto v) SAM_RLX_INLINED { SAM_RLX_PREFETCH_WRITE(line + v.value * kLanes); });
      steps(Int<kSteps>{});
    }
  }
  if constexpr (Fetch && kPrefetchSteps > 0 && A::kPacked) {
    for (; p >= kPrefetchSteps + kSteps; p -= kSteps) steps(Int<kSteps>{});
    // Ahead of the last steps is the next panel: not the one behind, where k has several blocks.
    ahead += t.next - (t.b + t.k * kNr);
  }
  for (; p >= fetching + kSteps; p -= kSteps) steps(Int<kSteps>{});
  if constexpr (Fetch && kPrefetchPanel) {
    for (const float* next = t.next; p >= kSteps; p -= kSteps, next += kLine) {
      SAM_RLX_PREFETCH_FAR(next);
      steps(Int<kSteps>{});
    }
  }
  for (; p > 0; --p) steps(Int<1>{});
  // The last turn of some rows after the other: what becomes of these is done while the others are
  // multiplied. All stores at once would keep the multiply-adds from their units.
  end([&](auto finish) SAM_RLX_INLINED {
    for_each<(R + kGroup - 1) / kGroup>([&](auto group) SAM_RLX_INLINED {
      constexpr int kFirst = group.value * kGroup;
      constexpr int kRows = kFirst + kGroup < R ? kGroup : R - kFirst;
      if (last_turn) {
        A again = a;
        multiply(Int<kSteps>{}, Int<kFirst>{}, Int<kRows>{}, again);
      }
      finish(Int<kFirst>{}, Int<kFirst + kRows>{});
    });
  });
}

// C = A B for A and B that are both packed (PackedRows), or for any. In gemm.inl, or another object
// of the instruction set.
template <class A>
void multiply(const sam_rlx::GemmArgs& g) noexcept;

SAM_RLX_INLINE bool has_packed_a(const sam_rlx::GemmArgs& g) {
  return g.a.row_stride == 1 && g.a.k_stride == kMr;
}
