// All kernels and their table. Before it stand what base.inl of AVX2 has, dot4, and the constants
// of the instruction set: kName, kBlockBytes and what gemm.inl and int8_gemm.inl name. Order
// matters: each body uses what stands above it.
// clang-format off
#include "kernels/bodies/pack.inl"
#include "kernels/bodies/gemm.inl"
#include "kernels/bodies/bfloat16.inl"
#include "kernels/bodies/quantize.inl"
#include "kernels/bodies/int8_gemm.inl"
#include "kernels/bodies/attention.inl"
#include "kernels/bodies/elementwise.inl"
#include "kernels/bodies/norm.inl"
#include "kernels/bodies/softmax.inl"
#include "kernels/bodies/depthwise.inl"
#include "kernels/bodies/position_scores.inl"
// clang-format on

constexpr sam_rlx::KernelTable kTable{
    .name = kName,
    .lanes = kLanes,
    .gemm_mr = kMr,
    .gemm_nr = kNr,
    .gemm_kc = kMaxKc,
    .block_bytes = kBlockBytes,
    .int8_mr = kInt8Mr,
    .bfloat16_inputs = false,
    .gemm = gemm,
    .pack_weight = pack_weight,
    .widen_bfloat16 = widen_bfloat16,
    .round_bfloat16 = round_bfloat16,
    .bfloat16_gemm = bfloat16_gemm,
    .pack_bfloat16_rows = pack_bfloat16_rows,
    .quantize_rows = quantize_rows,
    .pack_int8_weight = pack_int8_weight,
    .int8_gemm = int8_gemm,
    .pack_a_columns = pack_a_columns,
    .pack_a_rows = pack_a_rows,
    .pack_b_rows = pack_b_rows,
    .transpose_block = transpose_block,
    .softmax_columns = softmax_columns,
    .attend_columns = attend_columns,
    .pair_products = pair_products,
    .position_scores = position_scores,
    .unpack_columns = unpack_columns,
    .layer_norm_rows = layer_norm_rows,
    .exp_columns = exp_columns,
    .softmax_rows = softmax_rows,
    .softmax_groups = softmax_groups,
    .layer_norm_columns = layer_norm_columns,
    .depthwise_row = depthwise_row,
    .gelu = gelu_all,
};
