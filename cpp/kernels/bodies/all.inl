// All kernels. Before it stand what base.inl of AVX2 has, dot4, and the constants of the instruction
// set that products.inl and int8_gemm.inl name. Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/bodies/products.inl"
#include "kernels/bodies/gemm.inl"
#include "kernels/bodies/gemm_choice.inl"
#include "kernels/bodies/attention.inl"
#include "kernels/bodies/others.inl"
// clang-format on
