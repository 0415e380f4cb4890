// Loads and stores at the ends of rows, where fewer numbers are left than a vector has. kNv, the
// vectors in a row of a tile (gemm.inl), is a constant of the instruction set.

constexpr int kNr = kNv * kLanes;

// Loads n lanes, at most a vector. The others are zero.
SAM_RLX_INLINE Vec load_cols(const float* p, Index n) {
  return n >= kLanes ? load(p) : load_n(p, n);
}

// Stores the first n lanes. A whole vector is stored without a mask: masked stores are slow, even
// those of all lanes.
SAM_RLX_INLINE void store_cols(float* p, Vec x, Index n) {
  if (n >= kLanes) {
    store(p, x);
  } else {
    store_n(p, x, n);
  }
}

// Stores the first n lanes. With `harmless`, the numbers after them may be overwritten: then the
// whole vector is stored, since masked stores are slow.
SAM_RLX_INLINE void store_row(float* p, Vec x, Index n, bool harmless) {
  if (n == kLanes || harmless) {
    store(p, x);
  } else {
    store_n(p, x, n);
  }
}
