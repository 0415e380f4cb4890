#include "layers/rope.h"

#include <algorithm>
#include <cmath>

namespace sam_rlx {

void AxialRope::build() {
  const std::int64_t quarter = dim / 4;
  cos = Tensor({side, quarter});
  sin = Tensor({side, quarter});
  for (std::int64_t c = 0; c < side; ++c) {
    for (std::int64_t j = 0; j < quarter; ++j) {
      const double exponent = 4.0 * static_cast<double>(j) / static_cast<double>(dim);
      const double angle = static_cast<double>(c) * std::pow(theta, -exponent);
      cos.data()[c * quarter + j] = static_cast<float>(std::cos(angle));
      sin.data()[c * quarter + j] = static_cast<float>(std::sin(angle));
    }
  }
}

Tensor AxialRope::pairs_to_halves(ConstView rows) {
  Tensor out(rows.shape);
  const std::int64_t count = rows.shape[0], width = count == 0 ? 0 : rows.numel() / count;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t from = r < count / 2 ? 2 * r : 2 * (r - count / 2) + 1;
    std::copy_n(rows.data + from * width, width, out.data() + r * width);
  }
  return out;
}

}  // namespace sam_rlx
