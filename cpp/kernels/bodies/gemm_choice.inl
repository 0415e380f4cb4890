// C = A B, whatever A and B are.
void gemm(const sam_rlx::GemmArgs& g) noexcept {
  if (has_packed_a(g) && g.b.k_stride == kNr) {
    multiply<PackedRows>(g);
  } else {
    multiply<PlainRows>(g);
  }
}
