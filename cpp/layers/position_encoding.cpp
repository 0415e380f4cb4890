#include "layers/position_encoding.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace sam_rlx {
namespace {

// -> (size, features): of the positions 1 to size. In double: each number is then rounded once.
Tensor axis_table(std::int64_t size, std::int64_t features, double temperature) {
  constexpr double kEps = 1e-6;
  Tensor table({size, features});
  for (std::int64_t k = 0; k < features; ++k) {
    const double exponent = static_cast<double>(2 * (k / 2)) / static_cast<double>(features);
    const double period = std::pow(temperature, exponent);
    for (std::int64_t i = 0; i < size; ++i) {
      const double position = static_cast<double>(i + 1) / (static_cast<double>(size) + kEps);
      const double angle = position * 2.0 * std::numbers::pi / period;
      table.data()[i * features + k] =
          static_cast<float>(k % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace

Tensor PositionEmbeddingSine::dense(std::int64_t height, std::int64_t width) const {
  if (num_pos_feats < 4 || num_pos_feats % 4 != 0) {
    fail("num_pos_feats", "a multiple of 4", std::to_string(num_pos_feats));
  }
  const std::int64_t half = num_pos_feats / 2;
  const Tensor rows = axis_table(height, half, temperature);
  const Tensor cols = axis_table(width, half, temperature);
  Tensor out({height, width, num_pos_feats});
  float* to = out.data();
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      to = std::copy_n(rows.data() + y * half, half, to);
      to = std::copy_n(cols.data() + x * half, half, to);
    }
  }
  return out;
}

Tensor PositionEmbeddingSine::frequencies() const {
  const std::int64_t count = num_pos_feats / 4;
  Tensor out({count});
  for (std::int64_t k = 0; k < count; ++k) {
    const double exponent = static_cast<double>(k) / static_cast<double>(count);
    out.data()[k] = static_cast<float>(2.0 * std::numbers::pi / std::pow(temperature, exponent));
  }
  return out;
}

}  // namespace sam_rlx
