#include "layers/rope.h"

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
      const double position = scale * (first + static_cast<double>(i / quarter));
      const double angle = position * std::pow(theta, -exponent);
      cosines.data()[i] = static_cast<float>(std::cos(angle));
      sines.data()[i] = static_cast<float>(std::sin(angle));
    }
  };
  table(0.0, side, cos, sin);
  table(side % 2 == 0 ? 0.5 : 0.0, (side + 1) / 2, centered_cos, centered_sin);
  table(0.5 * static_cast<double>(side - 1), 1, center_cos, center_sin);
}

std::vector<std::int64_t> AxialRope::row_order(std::int64_t rows, std::int64_t turned) const {
  std::vector<std::int64_t> order;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t i = row % dim, pair = i < dim / 2 ? 2 * i : 2 * (i - dim / 2) + 1;
    order.push_back(row < turned ? row - i + pair : row);
  }
  return order;
}

}  // namespace sam_rlx
