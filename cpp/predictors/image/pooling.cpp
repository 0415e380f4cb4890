#include "predictors/image/pooling.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace sam_rlx {
namespace {

// The cells along one axis that a pixel lies in, and how much of it.
struct Share {
  std::int64_t cell;
  double part;
};

// `cells` of `side / cells` each, of which `input` hold the `count` pixels.
std::vector<std::vector<Share>> shares(std::int64_t count, std::int64_t input, std::int64_t side,
                                       std::int64_t cells) {
  const double pixel = static_cast<double>(input) / static_cast<double>(count) *
                       static_cast<double>(cells) / static_cast<double>(side);  // in cells
  std::vector<std::vector<Share>> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const double begin = static_cast<double>(i) * pixel, end = static_cast<double>(i + 1) * pixel;
    for (auto cell = static_cast<std::int64_t>(begin); cell < cells; ++cell) {
      const auto left = static_cast<double>(cell);
      const double part = std::min(end, left + 1.0) - std::max(begin, left);
      if (part <= 0.0) break;
      result[static_cast<std::size_t>(i)].push_back({cell, part});
    }
  }
  return result;
}

// What each cell (g, g) holds of the mask.
std::vector<double> cell_weights(const Pooling& pooling, const std::uint8_t* mask) {
  const std::int64_t g = pooling.embedding.shape[2], width = pooling.orig_hw.width;
  const auto rows = shares(pooling.orig_hw.height, pooling.input_hw.height, pooling.side, g);
  const auto columns = shares(width, pooling.input_hw.width, pooling.side, g);
  std::vector<double> weights(static_cast<std::size_t>(g * g)), line(static_cast<std::size_t>(g));
  for (std::size_t y = 0; y < rows.size(); ++y) {
    std::fill(line.begin(), line.end(), 0.0);
    const std::uint8_t* const pixels =
        mask == nullptr ? nullptr : mask + static_cast<std::int64_t>(y) * width;
    for (std::size_t x = 0; x < columns.size(); ++x) {
      if (pixels != nullptr && pixels[x] == 0) continue;
      for (const Share& column : columns[x]) {
        line[static_cast<std::size_t>(column.cell)] += column.part;
      }
    }
    for (const Share& row : rows[y]) {
      double* const out = weights.data() + row.cell * g;
      for (std::int64_t j = 0; j < g; ++j) {
        out[j] += row.part * line[static_cast<std::size_t>(j)];
      }
    }
  }
  return weights;
}

}  // namespace

Tensor pooled(const Pooling& pooling, const std::uint8_t* mask) {
  const std::vector<double> weights = cell_weights(pooling, mask);
  double total = 0.0;
  for (const double weight : weights) total += weight;
  if (total == 0.0) fail("mask", "at least one pixel", "none");
  const std::int64_t channels = pooling.embedding.shape[1];
  const auto positions = static_cast<std::int64_t>(weights.size());
  Tensor result(Shape{channels});
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* const map = pooling.embedding.data + c * positions;
    double sum = 0.0;
    for (std::int64_t i = 0; i < positions; ++i) {
      sum += weights[static_cast<std::size_t>(i)] * static_cast<double>(map[i]);
    }
    result.data()[c] = static_cast<float>(sum / total);
  }
  return result;
}

}  // namespace sam_rlx
