// All kernels. An instruction set includes this file after its own definitions: Vec and its
// functions (see avx2/base.inl), dot4, row_range and quantize_row, and the
// constants that products.inl and int8_gemm.inl name.
// Each body uses what is included above it.
// clang-format off
#include "kernels/bodies/products.inl"
#include "kernels/bodies/gemm.inl"
#include "kernels/bodies/gemm_choice.inl"
#include "kernels/bodies/softmax_columns.inl"
#include "kernels/bodies/attention_tiles.inl"
#include "kernels/bodies/attention.inl"
#include "kernels/bodies/int16_products.inl"
#include "kernels/bodies/int16_gemm.inl"
#include "kernels/bodies/attention_int16.inl"
#include "kernels/bodies/position_scores_int16.inl"
#include "kernels/bodies/others.inl"
// clang-format on
