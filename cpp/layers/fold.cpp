#include "layers/fold.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace sam_rlx {

Tensor folded_weight(ConstView weight, ConstView rows) {
  const std::int64_t out = weight.shape[0], mid = rows.shape[0];
  if (weight.numel() != out * mid) fail_internal("folded_weight: sizes do not match");
  const std::int64_t length = mid == 0 ? 0 : rows.numel() / mid;
  Shape shape = rows.shape;
  shape[0] = out;
  Tensor result(shape);
  std::vector<double> sums(static_cast<std::size_t>(length));
  for (std::int64_t r = 0; r < out; ++r) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t m = 0; m < mid; ++m) {
      const double factor = weight.data[r * mid + m];
      const float* const row = rows.data + m * length;
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += factor * row[i];
    }
    std::transform(sums.begin(), sums.end(), result.data() + r * length,
                   [](double sum) { return static_cast<float>(sum); });
  }
  return result;
}

Tensor folded_bias(ConstView weight, ConstView bias, ConstView inner) {
  const std::int64_t out = weight.shape[0], mid = inner.numel();
  if (weight.numel() != out * mid || bias.numel() != out) {
    fail_internal("folded_bias: sizes do not match");
  }
  Tensor result({out});
  for (std::int64_t r = 0; r < out; ++r) {
    double sum = bias.data[r];
    for (std::int64_t m = 0; m < mid; ++m) {
      sum += static_cast<double>(weight.data[r * mid + m]) * inner.data[m];
    }
    result.data()[r] = static_cast<float>(sum);
  }
  return result;
}

}  // namespace sam_rlx
