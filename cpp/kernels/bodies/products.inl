// The inner loop of every product of floats: it sums the products of a tile of up to kMr rows and
// kNv vectors in registers. A step is one index of the inner dimension; see gemm.inl.

constexpr Index kLine = 64 / sizeof(float);

// Constants of the instruction set, besides kMr and kNv:
//   kMaxKc            The longest block of the inner dimension.
//   kPrefetchPanel    Whether the next panel of B is fetched while this one is multiplied.
//   kPrefetchSteps    How many steps ahead the rows of B are fetched; 0: they are not.
//   kThirdFromMemory  Whether the multiply-add itself broadcasts the number of A from memory, in
//                     every third row. That saves an instruction, which counts where a core runs
//                     two threads, and costs a load for each vector of the row. In every second row
//                     it would need more loads than a core does at a time.
//   kByLane           Whether a multiply-add takes its number of A from one lane of a register:
//   then
//                     nothing is copied to all lanes. A packed A is loaded by whole vectors.
//   kLastRows         How many rows of a whole tile complete their sums together: all of them where
//                     stores do not compete with multiply-adds for a unit of the core.
// docs/develop/optimizations.md: next-panel, fetch-ahead, third-from-memory, last-rows.

// How many steps a block of k has. Blocks are about equally long, a multiple of 8.
constexpr Index gemm_k_block(Index k) {
  const Index blocks = (k + kMaxKc - 1) / kMaxKc;
  return blocks <= 1 ? k : ((k + blocks - 1) / blocks + 7) / 8 * 8;
}

// Reads A from a packed panel, in which the kMr numbers of a step lie side by side.
class PackedRows {
 public:
  static constexpr bool kPacked = true;

  SAM_RLX_INLINE explicit PackedRows(const TileArgs& t) : a_(t.a) {}
  // The address of A(Row, step). Steps count from the one that move() has come to.
  template <int Row>
  SAM_RLX_INLINE const float* at(Index step) const {
    return a_ + step * kMr + Row;
  }
  SAM_RLX_INLINE void move(Index steps) { a_ += steps * kMr; }

 private:
  const float* a_;
};

// Reads an A that is not packed: its rows, and the numbers of a row, have any stride. A pointer for
// each row would need more registers than there are, so that one pointer serves three rows.
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

// Adds the products of one step to the sums of rows [First, First + Rows): the row of B is loaded
// once, and each number of A is multiplied with it. With Fetch, the row of B that lies `ahead`
// numbers further is fetched.
template <bool Fetch, int First, int Rows, class A, int R, int V>
SAM_RLX_INLINE void add_products(const A& a, Index step, const float* b, Index ahead,
                                 Vec (&acc)[R][V]) {
  Vec bv[V];
  if constexpr (Fetch && kPrefetchSteps > 0 && First == 0) {
    for_each<V>([&](auto v) SAM_RLX_INLINED { SAM_RLX_PREFETCH(b + ahead + v.value * kLanes); });
  }
  for_each<V>([&](auto v) SAM_RLX_INLINED { bv[v.value] = load(b + v.value * kLanes); });
  if constexpr (kByLane && A::kPacked) {
    constexpr int kVectors = (Rows + kLanes - 1) / kLanes;
    Vec av[kVectors];
    for_each<kVectors>([&](auto i) SAM_RLX_INLINED {
      av[i.value] = load(a.template at<First + i.value * kLanes>(step));
    });
    for_each<Rows>([&](auto i) SAM_RLX_INLINED {
      for_each<V>([&](auto v) SAM_RLX_INLINED {
        Vec& sum = acc[First + i.value][v.value];
        add_product(sum, av[i.value / kLanes], bv[v.value], Int<i.value % kLanes>{});
      });
    });
    return;
  }
  for_each<Rows>([&](auto i) SAM_RLX_INLINED {
    constexpr int kRow = First + i.value;
    const float* const position = a.template at<kRow>(step);
    const auto add_row = [&](auto number) SAM_RLX_INLINED {
      for_each<V>([&](auto v)
                      SAM_RLX_INLINED { add_product(acc[kRow][v.value], number, bv[v.value]); });
    };
    if constexpr (kThirdFromMemory && kRow % 3 == 0) {
      add_row(position);
    } else if constexpr (kByLane) {
      add_row(*position);
    } else {
      add_row(set1(*position));
    }
  });
}

constexpr int kSteps =
    8;  // steps of a turn of the loop (docs/develop/optimizations.md: eight-steps)

// The lines of memory that a tile reads or writes after its products: those of the residual if
// there is one, else those of C. They are fetched while the products are summed, one row of the
// tile in each of the first turns; in each of the last turns a line of the next panel of B is
// fetched. They are spread over the turns because a core waits for a few lines at a time only, and
// more fetches at once would hold up the products. Where there are too few turns, or B is not
// packed, all lines are fetched before the first turn.
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

// How many rows of a tile of R rows and V vectors complete their sums together.
template <int R, int V>
constexpr int kRowsTogether = R == kMr && V == kNv ? kLastRows : R;

// Sums the products of a tile: acc(r, j) = sum over p < t.k of A(r, p) B(p, j).
//
// The caller says what happens to the sums. end(by_rows) is called once, when at most the last turn
// is left. It calls by_rows(finish), which completes the sums of one group of rows after the other
// and calls finish(Int<first>, Int<end>) for each group [first, end).
//
// With PackedRows, B is packed too, and B(p, j) is b[p * kNr + j]. Without Fetch, all of B is known
// to be in the caches, and nothing is fetched.
template <class A, bool Fetch, int R, int V, class End>
SAM_RLX_INLINE void sum_products(const TileArgs& t, Vec (&acc)[R][V], End end) {
  clear(acc);
  A a(t);
  const float* b = t.b;
  const Index b_step = A::kPacked ? kNr : t.g->b.k_stride;
  Index ahead = A::kPacked || t.packed_b ? kPrefetchSteps * kNr : 0;
  // Does `count` steps for rows [first, first + rows), unrolled. Offsets into a packed A are known
  // to the compiler, so that one move at the end is enough.
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
    // The last steps fetch the beginning of the next panel, which does not follow this one in
    // memory where k has several blocks.
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
  // The last turn is done for one group of rows after the other, so that the stores of a group run
  // beside the multiply-adds of the next one. All stores at once would take the units of the
  // multiply-adds.
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

// C = A B. PackedRows: both operands are packed. PlainRows: A is not packed, and B may be. Defined
// in gemm.inl, which an instruction set may compile into another object.
template <class A>
void multiply(const sam_rlx::GemmArgs& g) noexcept;

SAM_RLX_INLINE bool has_packed_a(const sam_rlx::GemmArgs& g) {
  return g.a.row_stride == 1 && g.a.k_stride == kMr;
}
