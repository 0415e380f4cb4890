// All kernels but products of floats and attention. Each body uses what is included above it.
// clang-format off
#include "kernels/bodies/pack.inl"
#include "kernels/bodies/bfloat16.inl"
#include "kernels/bodies/quantize.inl"
#include "kernels/bodies/pack_int16.inl"
#include "kernels/bodies/int8_gemm.inl"
#include "kernels/bodies/elementwise.inl"
#include "kernels/bodies/norm.inl"
#include "kernels/bodies/softmax.inl"
#include "kernels/bodies/depthwise.inl"
#include "kernels/bodies/position_scores.inl"
// clang-format on
