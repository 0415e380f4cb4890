void widen_bfloat16(const std::uint16_t* x, Index n, float* out) noexcept {
  for (Index i = 0; i < n; ++i) {
    union {
      std::uint32_t bits;
      float value;
    } word;
    word.bits = std::uint32_t{x[i]} << 16;
    out[i] = word.value;
  }
}
