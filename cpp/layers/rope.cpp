#include "layers/rope.h"

#include <algorithm>
#include <cmath>

namespace sam_rlx {

void AxialRope::build() {
  const std::int64_t quarter = dim / 4;
  // Coordinates first, first + 1, ...
  const auto table = [&](double first, std::int64_t count, Tensor& cosines, Tensor& sines) {
    cosines = Tensor({count, quarter});
    sines = Tensor({count, quarter});
    for (std::int64_t i = 0; i < count * quarter; ++i) {
      const double exponent = 4.0 * static_cast<double>(i % quarter) / static_cast<double>(dim);
      const double place = scale * (first + static_cast<double>(i / quarter));
      const double angle = place * std::pow(theta, -exponent);
      cosines.data()[i] = static_cast<float>(std::cos(angle));
      sines.data()[i] = static_cast<float>(std::sin(angle));
    }
  };
  table(0.0, side, cos, sin);
  table(side % 2 == 0 ? 0.5 : 0.0, (side + 1) / 2, centered_cos, centered_sin);
  table(0.5 * static_cast<double>(side - 1), 1, center_cos, center_sin);
}

Tensor AxialRope::pairs_to_halves(ConstView rows) {
  Tensor out(rows.shape);
  const std::int64_t count = rows.shape[0], width = count == 0 ? 0 : rows.numel() / count;
  for (std::int64_t r = 0; r < count; ++r) {
    std::copy_n(rows.data + pair_of(r, count) * width, width, out.data() + r * width);
  }
  return out;
}

}  // namespace sam_rlx
