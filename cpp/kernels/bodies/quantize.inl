// Floats to bytes: rows of inputs, and weights.
// clang-format off
#include "kernels/bodies/row_code.inl"
#include "kernels/bodies/pack_int8.inl"
// clang-format on

void quantize_rows(const sam_rlx::QuantizeRowsArgs& g) noexcept {
  for (Index r = 0; r < g.rows; ++r) {
    const float* const x = g.x + r * g.cols;
    std::uint8_t* const out = g.out + r * g.out_stride;
    const RowCode code = row_code(x, g.cols);
    g.scale[r] = code.row.scale;
    g.zero[r] = static_cast<std::int32_t>(code.shift);
    if (code.row.inverse == 0.0F) {
      for (Index p = 0; p < g.cols; p += kLanes) store_bytes(out + p, zero());
    } else {
      quantize_row(x, g.cols, code.row.inverse, code.shift, out);
    }
  }
}
