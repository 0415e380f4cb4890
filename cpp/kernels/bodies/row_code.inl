// How rows of floats become bytes. The instruction set gives row_range and quantize_row. Every step
// is a single float32 operation that IEEE 754 defines, so every one gives the same integers.

constexpr float kSmallestNormal = 1.17549435e-38F;

// The largest of a row's numbers without their signs.
SAM_RLX_INLINE float largest(const RowRange& row) {
  return row.high > -row.low ? row.high : -row.low;
}

// The scale of a row and its inverse. A row of zeros has the inverse 0; a row with NaN or infinity
// has the scale NaN.
struct RowScale {
  float scale, inverse;
};
SAM_RLX_INLINE RowScale row_scale(const RowRange& range, float scale) {
  if (!range.finite) return {__builtin_nanf(""), 0.0F};
  if (scale < kSmallestNormal) return {0.0F, 0.0F};
  return {scale, 1.0F / scale};
}

// How the numbers of a row become bytes: x ~ scale * (byte - shift).
struct RowCode {
  RowScale row;
  float shift;
};
SAM_RLX_INLINE RowCode row_code(const float* x, Index cols) {
  constexpr float kLevels = 255.0F;
  const RowRange range = row_range(x, cols);
  const RowScale row = row_scale(range, range.high / kLevels - range.low / kLevels);
  if (row.inverse == 0.0F) return {row, 0.0F};
  float shift[kLanes];
  store(shift, round_nearest(mul(set1(-range.low), set1(row.inverse))));
  return {row, shift[0]};
}
