#pragma once

#include <cstdint>

namespace sam_rlx {

// Applied to a GEMM's result after the bias, before the residual.
enum GemmActivation : std::int32_t { kGemmNone = 0, kGemmRelu = 1, kGemmGelu = 2 };

// Where the numbers of A and B are: see GemmArgs.
struct LeftOperand {
  const float* data = nullptr;
  std::int64_t row_stride = 0, k_stride = 1, panel_stride = 0;
};
struct RightOperand {
  const float* data = nullptr;
  std::int64_t k_stride = 0, panel_stride = 0;
};

// C (m, n) = activation(A (m, k) * B (k, n) [+ C] + bias) + residual, float32, one thread.
//   A(i, p) = a.data[(i / mr) * a.panel_stride + (i % mr) * a.row_stride + p * a.k_stride]
//   B(p, j) = b.data[(j / nr) * b.panel_stride + p * b.k_stride + j % nr]
// where mr, nr are the table's gemm_mr, gemm_nr; see ops/operands.h. No element outside (m, k) of
// A, (k, n) of B or (m, n) of C is touched, but for the missing rows of a packed A (row_stride 1,
// k_stride mr), which may be read. A, B and C do not overlap; residual may be C if k is at most
// gemm_kc.
struct GemmArgs {
  std::int64_t m = 0, n = 0, k = 0;
  LeftOperand a;
  RightOperand b;
  float* c = nullptr;
  std::int64_t c_row_stride = 0;
  bool accumulate = false;         // add what `partial` holds, before bias and activation
  const float* partial = nullptr;  // (m, n), outside of C; null: C itself
  std::int64_t partial_row_stride = 0;
  const float* column_bias = nullptr;  // (n,)
  const float* row_bias = nullptr;     // (m,)
  GemmActivation activation = kGemmNone;
  const float* residual = nullptr;  // (m, n)
  std::int64_t residual_row_stride = 0;
};

// How the short numbers of a product lie in memory, so that one instruction takes several of them:
// `depth` inner numbers of a row of A, or of a column of B, side by side; then those of the next
// one, `left_rows` rows of A and nr columns of B. The number (i, p) of A, whose rows take `stride`
// numbers each, is at
//   ((i / left_rows * (stride / depth) + p / depth) * left_rows + i % left_rows) * depth + p %
//   depth,
// which is i * stride + p where left_rows is 1, and the number (p, j) of B, with j, nr for i,
// left_rows. See panel_position in ops/operands.h.
struct PanelShape {
  std::int32_t left_rows = 1, depth = 1;
};

// Rows of floats as bytes, each with a scale and a zero point of its own:
//   x(r, p) ~ scale[r] * (out(r, p) - zero[r]), 0 <= out <= 255, 0 stays 0.
// The range is [min(0, row), max(0, row)] and is rounded to nearest even, with the same integers on
// every instruction set. A row whose range is below 255 * 1.2e-38 becomes zeros with scale 0; a row
// with NaN or infinity gets scale NaN, and its row of a product is NaN. The bytes lie as the
// table's int8_panels say, each xor int8_flip; whole panels of rows are written.
struct QuantizeRowsArgs {
  std::int64_t rows = 0, cols = 0;
  const float* x = nullptr;  // (rows, cols)
  std::uint8_t* out = nullptr;
  std::int64_t out_stride = 0;  // a multiple of 64, so that whole vectors may be written
  float* scale = nullptr;       // (rows,)
  std::int32_t* zero = nullptr;
};

// A weight (n, k) as bytes in [-127, 127], one scale for each of the n channels, packed into panels
// of nr channels as the table's int8_panels say, with the stride k rounded up to their depth.
// Missing numbers are zero. Of the bytes 2 i and 2 i + 1 of a channel the positive ones sum to 128
// at most, and so do the negative ones: 255 * 128 < 2^15, so that their products with unsigned
// bytes can be added in 16 bits.
struct PackInt8Args {
  std::int64_t n = 0, k = 0;
  const float* weight = nullptr;  // (n, k)
  std::int8_t* out = nullptr;
  float* scale = nullptr;       // (n rounded up to nr,)
  std::int32_t* sum = nullptr;  // the same size: sums of a channel's bytes
};

// C (m, n) = activation(product + bias) + residual with
//   product(i, j) = a_scale[i] * b_scale[j] * sum over p of (A(i, p) - a_zero[i]) * B(p, j),
// the sum exact in 32 bits: k is at most kMaxInt8Depth. A is as quantize_rows leaves it, B as
// pack_int8_weight does.
struct Int8GemmArgs {
  GemmArgs target;  // m, n, k and what C and its epilogue are; its A, B and partial sums
                    // are not used
  const std::uint8_t* a = nullptr;
  std::int64_t a_row_stride = 0;
  const float* a_scale = nullptr;        // (m,)
  const std::int32_t* a_zero = nullptr;  // (m,)
  const std::int8_t* b = nullptr;
  const float* b_scale = nullptr;
  const std::int32_t* b_sum = nullptr;
};
constexpr std::int64_t kMaxInt8Depth = 131072;  // 255 * 128 * kMaxInt8Depth / 2 < 2^31

// C (m, n) = activation(A (m, k) B (k, n) + bias) + residual of bfloat16 numbers, summed in
// float32.
// A and B lie as the table's bfloat16_panels say. Rows of A up to a multiple of kBFloat16Rows may
// be read, numbers up to a multiple of kBFloat16Depth are; these are zero beyond k. The stride of B
// is k rounded up to kBFloat16Depth, and zeros fill what is missing.
struct BFloat16GemmArgs {
  GemmArgs target;  // as of Int8GemmArgs
  const std::uint16_t* a = nullptr;
  std::int64_t a_row_stride = 0;
  const std::uint16_t* b = nullptr;
  // So many numbers are read after this product: they may come near meanwhile.
  const std::uint16_t* next = nullptr;
  std::int64_t next_count = 0;
};
constexpr std::int64_t kBFloat16Rows = 32, kBFloat16Depth = 32;

// One step of a streaming softmax over a tile of scores (keys, nr) whose columns are queries; base
// 2 throughout. Each score x becomes 2^(y - running maximum) with
//   y = scale * x + rel_h[h * nr + column] + rel_w[w * nr + column],
// where key first_key + j lies at (h, w) of a map of rel_width columns. What the tiles before it
// left in running_sum and result is shrunk to the new maximum.
struct SoftmaxColumnsArgs {
  float* scores = nullptr;  // (keys, nr), changed in place
  std::int64_t keys = 0;
  std::int64_t columns = 0;      // rounded up to whole vectors; all nr may be read and written
  std::int64_t first_key = 0;    // 0: running_sum and result hold nothing yet
  float scale = 1.0F;            // of scores that lie in memory
  const float* rel_h = nullptr;  // null for none: then rel_w is not used either
  const float* rel_w = nullptr;
  std::int64_t rel_width = 1;
  float* running_max = nullptr;  // (nr,), -inf before the first step
  float* running_sum = nullptr;  // (nr,), 0 before the first step
  float* result = nullptr;       // (value_dim, nr)
  std::int64_t value_dim = 0;
};

// A step of streaming attention: scores, their softmax, and the product of values with the weights,
// which is added to the result.
struct AttendColumnsArgs {
  SoftmaxColumnsArgs softmax;
  // Keys (keys, dim), packed as a left operand, and queries (dim, nr), scaled already, whose
  // products the scores are; null where they are there already.
  const float* keys = nullptr;
  const float* queries = nullptr;
  std::int64_t dim = 0;
  // (value_dim, keys), packed as a left operand whose panels begin value_stride floats apart.
  const float* values = nullptr;
  std::int64_t value_stride = 0;
  // Unless 0, neither is packed: keys and values are rows that begin so many floats apart. Then
  // there are no terms of position.
  std::int64_t row_stride = 0;
};

// The factors of products beside weights of fewer bits. Sums are float32, but for those of a block
// of integers; so are the scores of attention and their softmax.
enum class Products : std::int32_t { kFloat32, kBFloat16, kInt16 };

// Integers of 16 bits, x ~ scale * integer, with a scale for each row or column. Two neighbouring
// inner numbers lie side by side, as in a panel of depth 2, where A has gemm_mr rows a panel and B
// has gemm_nr columns; zeros fill what is missing. The largest number becomes `limit`: see
// int16_limit. The scale of numbers with NaN or infinity is NaN.

// The largest integer whose square may be added `count` times in 32 bits.
constexpr std::int32_t int16_limit(std::int64_t count) {
  std::int32_t limit = 0;
  for (std::int32_t bit = 1 << 14; bit > 0; bit /= 2) {
    const std::int64_t square = std::int64_t{limit + bit} * (limit + bit);
    if (square * count <= 0x7FFFFFFF) limit += bit;
  }
  return limit;
}
// Of a step of attend_int16: how many keys, at most; its largest weight and value, whose products
// fit 32 bits together. Weights have more bits: many small ones share what a large one leaves.
constexpr std::int32_t kInt16Keys = 128, kInt16Weight = 16384;
constexpr std::int32_t kInt16Value = 0x7FFFFFFF / kInt16Keys / kInt16Weight;
// Of int16_gemm: how many products are summed as integers; the largest number of A; and what the
// numbers of a column of B, without their signs, sum to in so many rows, at most, before they are
// rounded. Most numbers are far below the largest, so that B has more bits than a bound for each
// number would leave.
constexpr std::int32_t kInt16Depth = 256, kInt16Left = 8191;
constexpr std::int32_t kInt16Sum = 0x7FFFFFFF / kInt16Left - kInt16Depth;

// C (m, n) = activation(product + bias) + residual with
//   product(i, j) = a_scale[i] * b_scale[j] * sum over p of A(i, p) * B(p, j),
// where each kInt16Depth products are summed exactly. A is as pack_int16_left leaves it with the
// limit kInt16Left, B as pack_int16_weight does.
struct Int16GemmArgs {
  GemmArgs target;  // as of Int8GemmArgs
  const std::int16_t* a = nullptr;
  const float* a_scale = nullptr;  // (m,)
  const std::int16_t* b = nullptr;
  std::int64_t b_stride = 0;       // numbers of a column of B, k or more: where its panels begin
  const float* b_scale = nullptr;  // (n rounded up to gemm_nr,)
};

// What attend_columns does, with products of such integers. The sum of weights and the result are
// kInt16Weight times as large.
struct AttendInt16Args {
  SoftmaxColumnsArgs softmax;             // its scale is not used
  const std::int16_t* keys = nullptr;     // A (keys, dim); null where the scores are there already
  const float* key_scale = nullptr;       // (keys rounded up to gemm_mr,)
  const std::int16_t* queries = nullptr;  // B (dim, nr)
  const float* query_scale = nullptr;     // (nr,), with the softmax's scale and log2(e)
  std::int64_t dim = 0;
  const std::int16_t* values = nullptr;  // A (value_dim, keys)
  const float* value_scale = nullptr;    // (value_dim,)
};

// One row of a depthwise convolution, channels last, for x with x * stride < width:
//   out[x * channels + c] = bias[c] + sum over i, j < size of
//       weight[(i * size + j) * channels + c] * rows[i][(x * stride + j - size / 2) * channels +
//       c].
// A null row and positions outside of [0, width) count as zeros.
struct DepthwiseRowArgs {
  const float* const* rows = nullptr;    // (size,)
  std::int64_t size = 0;                 // odd
  std::int64_t width = 0, channels = 0;  // of the rows
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;
  std::int64_t stride = 1;
};

// Products of pairs of channels (complex numbers q, and a weight w each) for a panel of nr queries:
//   even[(k * pairs + j) * nr + i] = Re(conj(w) q), odd[...] = Im(conj(w) q)
// with w = weight[k * 2 * pairs + j] + i weight[... + pairs] and q = query[j * nr + i] +
// i query[(pairs + j) * nr + i].
struct PairProductsArgs {
  const float* weight = nullptr;  // (depth, 2, pairs)
  const float* query = nullptr;   // (2, pairs, nr)
  float* even = nullptr;          // (depth, pairs, nr)
  float* odd = nullptr;
  std::int64_t depth = 0, pairs = 0;
};

// Scores of keys that lie on a run of positions, for a panel of nr queries. What a query makes of a
// position is the sum of a part for its column and a part for its row:
//   scores[(x * maps + t) * nr + i] = sum over k < depth of
//       keys[(x * depth + k) * maps + t] * (column[(x * depth + k) * nr + i] + row[k * nr + i]).
struct PositionScoresArgs {
  const float* keys = nullptr;    // (positions, depth, maps)
  const float* column = nullptr;  // (positions, depth, nr)
  const float* row = nullptr;     // (depth, nr)
  float* sum = nullptr;           // (depth, nr): scratch
  float* scores = nullptr;        // (positions, maps, nr)
  std::int64_t positions = 0, depth = 0, maps = 0;
};

// The same of integers of 16 bits, two neighbouring ones of `depth` in each word: the one beyond an
// odd depth is zero. Parts of columns and rows share a scale, so that they are added as integers;
// sums of products fit 32 bits.
struct PositionScoresInt16Args {
  const std::int16_t* keys = nullptr;    // (positions, words, maps) words
  const float* key_scale = nullptr;      // (positions, maps)
  const std::int16_t* column = nullptr;  // (positions, words, nr) words
  const std::int16_t* row = nullptr;     // (words, nr) words
  const float* query_scale = nullptr;    // (nr,)
  float* scores = nullptr;               // (positions, maps, nr)
  std::int64_t positions = 0, depth = 0, maps = 0;
};

// The kernels of one instruction set: plain C-style functions of pointers and sizes, one thread,
// no allocation. Every row is filled in every table.
struct KernelTable {
  const char* name;               // "avx2"
  std::int32_t lanes;             // floats in a vector
  std::int32_t gemm_mr, gemm_nr;  // register tile; packed weights depend on it
  // The inner dimension is summed in blocks of at most gemm_kc, so a caller that packs A in such
  // blocks and accumulates gets the bits of one call.
  std::int32_t gemm_kc;
  // Bytes of A that stay in L2 while B is streamed: a third of it on such processors.
  std::int32_t block_bytes;
  std::int32_t int8_mr;  // rows of the register tile of int8_gemm; its columns are gemm_nr
  PanelShape int8_panels, bfloat16_panels;
  std::uint8_t int8_flip;  // 128 where bytes of A are multiplied as signed ones, byte - 128
  // What layers of 16 bits, and attention beside weights of fewer bits, multiply fastest: inputs
  // are rounded to the same form, unless it is float32.
  Products reduced_products;
  // The same of attention to positions of maps, without tile registers.
  Products position_products;
  // Whether bfloat16_gemm takes less than a quarter of the time of gemm, as tile registers do.
  bool bfloat16_tiles;
  // Function pointers from here to the end.
  void (*gemm)(const GemmArgs&) noexcept;

  // Packs B (k, n), given as weight (n, k) row-major with row stride ldw, into panels of nr
  // columns: out[(j / nr) * k * nr + p * nr + j % nr]; missing columns are zero.
  void (*pack_weight)(const float* weight, std::int64_t ldw, std::int64_t n, std::int64_t k,
                      float* out) noexcept;

  // out[i] = x[i] for i < n, where x are the upper halves of float32.
  void (*widen_bfloat16)(const std::uint16_t* x, std::int64_t n, float* out) noexcept;

  // out[i] = x[i] rounded to nearest even; NaN stay so.
  void (*round_bfloat16)(const float* x, std::int64_t n, std::uint16_t* out) noexcept;
  void (*bfloat16_gemm)(const BFloat16GemmArgs&) noexcept;
  // Packs B (k, nr), row by row, for bfloat16_gemm: rounded as round_bfloat16 does, with zeros up
  // to a multiple of kBFloat16Depth.
  void (*pack_bfloat16_rows)(const float* x, std::int64_t k, std::uint16_t* out) noexcept;
  // Packs A (m, k) for bfloat16_gemm, rounded likewise, with zeros up to a multiple of
  // kBFloat16Depth: given by its rows, rows[i][p], where null is a row of zeros; or by its columns,
  // columns[p][i].
  void (*pack_bfloat16_left)(const float* const* rows, std::int64_t m, std::int64_t k,
                             std::int64_t stride, std::uint16_t* out) noexcept;
  void (*pack_bfloat16_left_columns)(const float* const* columns, std::int64_t k, std::int64_t m,
                                     std::int64_t stride, std::uint16_t* out) noexcept;

  void (*quantize_rows)(const QuantizeRowsArgs&) noexcept;
  void (*pack_int8_weight)(const PackInt8Args&) noexcept;
  void (*int8_gemm)(const Int8GemmArgs&) noexcept;

  // Packs A (m, k) given by its columns: rows[p][i] for i < m, into panels of mr rows:
  // out[(i / mr) * panel_stride + p * mr + i % mr]; missing rows are zero.
  void (*pack_a_columns)(const float* const* columns, std::int64_t k, std::int64_t m, float* out,
                         std::int64_t panel_stride) noexcept;

  // Packs mr rows into one panel of A, or nr rows, multiplied with scale, into one panel of B^T:
  // out[p * width + i] = rows[i][p] for p < k, 0 where rows[i] is null.
  void (*pack_a_rows)(const float* const* rows, std::int64_t k, float* out) noexcept;
  void (*pack_b_rows)(const float* const* rows, std::int64_t k, float scale, float* out) noexcept;

  // out[j * out_stride + i] = x[i * x_stride + j] for i < rows, j < cols.
  void (*transpose_block)(const float* x, std::int64_t x_stride, std::int64_t rows,
                          std::int64_t cols, float* out, std::int64_t out_stride) noexcept;

  void (*softmax_columns)(const SoftmaxColumnsArgs&) noexcept;
  // The same, whose weights go to a right operand of bfloat16_gemm (keys, nr), rounded as
  // pack_bfloat16_rows does; what `scores` holds then has no meaning.
  void (*softmax_bfloat16)(const SoftmaxColumnsArgs&, std::uint16_t* weights) noexcept;
  void (*attend_columns)(const AttendColumnsArgs&) noexcept;

  // Integers of 16 bits. Of B (k, nr), row by row, which may lie where x does; of A (m, k), given
  // by its rows; of A (m, k), given by its columns. The last two leave panels of gemm_mr rows.
  void (*pack_int16_rows)(const float* x, std::int64_t k, float limit, std::int16_t* out,
                          float* scale) noexcept;
  void (*pack_int16_left)(const float* const* rows, std::int64_t m, std::int64_t k, float limit,
                          std::int16_t* out, float* scale) noexcept;
  void (*pack_int16_left_columns)(const float* const* columns, std::int64_t k, std::int64_t m,
                                  float limit, std::int16_t* out, float* scale) noexcept;
  // Packs a weight (n, k) as B (k, n) in panels of gemm_nr columns; `scale` has a number for each
  // column of a panel.
  void (*pack_int16_weight)(const float* weight, std::int64_t n, std::int64_t k, std::int16_t* out,
                            float* scale) noexcept;
  void (*int16_gemm)(const Int16GemmArgs&) noexcept;
  void (*attend_int16)(const AttendInt16Args&) noexcept;

  void (*pair_products)(const PairProductsArgs&) noexcept;
  void (*position_scores)(const PositionScoresArgs&) noexcept;
  void (*position_scores_int16)(const PositionScoresInt16Args&) noexcept;

  // rows[i][d] = result[d * nr + i] / sum[i] for i < count <= nr, d < dim.
  void (*unpack_columns)(const float* result, const float* sum, std::int64_t count,
                         std::int64_t dim, float* const* rows) noexcept;

  // out(r, :) = (x(r, :) - mean) / sqrt(variance + eps) * weight + bias; two-pass biased variance.
  // out may be x.
  void (*layer_norm_rows)(const float* x, std::int64_t rows, std::int64_t cols, const float* weight,
                          const float* bias, float eps, float* out) noexcept;

  // x(:, c) = exp(x(:, c) - max_c) for each column; the largest value and the sum of exponentials
  // go to max (cols,) and sum (cols,). Row stride is cols.
  void (*exp_columns)(float* x, std::int64_t rows, std::int64_t cols, float* max,
                      float* sum) noexcept;
  // x(r, :) = softmax(x(r, :) * scale). Row stride is cols.
  void (*softmax_rows)(float* x, std::int64_t rows, std::int64_t cols, float scale) noexcept;
  // Each row holds `groups` runs of `lanes` numbers; softmax over the groups and one of zeros that
  // is not stored, for each lane.
  void (*softmax_groups)(float* x, std::int64_t rows, std::int64_t groups,
                         std::int64_t lanes) noexcept;
  // Channel norm of a channels-first block (channels, cols), in place: each column is normalized
  // over its channels and scaled by weight (channels,) and bias (channels,).
  void (*layer_norm_columns)(float* x, std::int64_t channels, std::int64_t cols,
                             const float* weight, const float* bias, float eps) noexcept;

  void (*depthwise_row)(const DepthwiseRowArgs&) noexcept;

  // Exact (erf) GELU of n numbers in place; absolute error below 1e-6 of the largest value.
  void (*gelu)(float* x, std::int64_t n) noexcept;
};

// One function per ISA object file.
const KernelTable& generic_kernels() noexcept;
const KernelTable& avx2_kernels() noexcept;
const KernelTable& avx512_kernels() noexcept;
const KernelTable& neon_kernels() noexcept;

// Rows of a table that processors with VNNI replace by better ones: byte products summed by one
// instruction. The integers are the same.
void avx2_vnni_kernels(KernelTable& table) noexcept;    // of avx2's
void avx512_vnni_kernels(KernelTable& table) noexcept;  // of avx512's
void avx512_bf16_kernels(KernelTable& table) noexcept;  // of avx512_vnni's: bfloat16 likewise
void amx_kernels(KernelTable& table) noexcept;          // of avx512's

// Of ARM: products of bytes by SDOT, then by USMMLA, and of bfloat16 by BFMMLA. Each is made of the
// table before it, the first one of neon's.
void neon_dotprod_kernels(KernelTable& table) noexcept;
void neon_i8mm_kernels(KernelTable& table) noexcept;
void neon_bf16_kernels(KernelTable& table) noexcept;

}  // namespace sam_rlx
