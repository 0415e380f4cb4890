#include <immintrin.h>

#include "kernels/kernel_table.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC's own header reads what it calls undefined on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace {

// Order matters: each body uses what stands above it.
// clang-format off
#include "kernels/bodies/prelude.inl"
#include "kernels/avx512/simd.inl"
#include "kernels/avx512/dot4.inl"

// docs/optimizations.md: register-tile, long-blocks, fetch-ahead, third-from-memory, last-rows.
constexpr int kMr = 14;
constexpr int kNv = 2;
constexpr int kInt8Mr = 6;
constexpr int kMaxKc = 768;
constexpr bool kPrefetchPanel = false;
constexpr int kPrefetchSteps = 72;  // a weight comes from beyond the second-level cache
constexpr bool kThirdFromMemory = true;
constexpr int kLastRows = 5;

#include "kernels/bodies/math.inl"
#include "kernels/bodies/normal_tail_table.inl"
#include "kernels/bodies/lanes.inl"
#include "kernels/bodies/pack.inl"
#include "kernels/bodies/gemm_result.inl"
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
    .name = "avx512",
    .lanes = kLanes,
    .gemm_mr = kMr,
    .gemm_nr = kNr,
    .gemm_kc = kMaxKc,
    .block_bytes = 320 * 1024,  // docs/optimizations.md: twice-the-rows
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
    .multiply_add_chains = multiply_add_chains,
    .gelu = gelu_all,
};

}  // namespace

const sam_rlx::KernelTable& sam_rlx::avx512_kernels() noexcept { return kTable; }
