// gemm, of other objects.

template <>
void multiply<PackedRows>(const sam_rlx::GemmArgs& g) noexcept {
  sam_rlx::neon_gemm_packed(g);
}
template <>
void multiply<PlainRows>(const sam_rlx::GemmArgs& g) noexcept {
  sam_rlx::neon_gemm_plain(g);
}

#include "kernels/bodies/gemm_choice.inl"
