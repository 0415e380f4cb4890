// Ends of rows that are no whole vector; kNv comes from the ISA.

constexpr int kNr = kNv * kLanes;

// n lanes, or all of them; missing lanes are zero.
SAM_RLX_INLINE Vec load_cols(const float* p, Index n) {
  return n >= kLanes ? load(p) : load_n(p, n);
}

// Stores n lanes, or all of them: masked stores are slow, even of all lanes.
SAM_RLX_INLINE void store_cols(float* p, Vec x, Index n) {
  if (n >= kLanes) {
    store(p, x);
  } else {
    store_n(p, x, n);
  }
}

// Stores n lanes, or more where that is harmless: masked stores are slow.
SAM_RLX_INLINE void store_row(float* p, Vec x, Index n, bool harmless) {
  if (n == kLanes || harmless) {
    store(p, x);
  } else {
    store_n(p, x, n);
  }
}
