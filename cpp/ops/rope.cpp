#include "ops/rope.h"

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

void rotate_pairs(const float* cos, const float* sin, std::int64_t count, float* re, float* im) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float a = re[i], b = im[i];
    re[i] = a * cos[i] - b * sin[i];
    im[i] = a * sin[i] + b * cos[i];
  }
}

// Turns one row of channels in halves, which lies at a position of the grid.
void rotate_row(const AxialAngles& angles, std::int64_t y, std::int64_t x, float* row) {
  const std::int64_t quarter = angles.cos.shape.last();
  float* const im = row + 2 * quarter;
  rotate_pairs(angles.cos.data + x * quarter, angles.sin.data + x * quarter, quarter, row, im);
  rotate_pairs(angles.cos.data + y * quarter, angles.sin.data + y * quarter, quarter, row + quarter,
               im + quarter);
}

}  // namespace

void rotate_(Context& ctx, const AxialAngles& angles, View x) {
  const std::int64_t positions = angles.side * angles.side, quarter = angles.cos.shape.last();
  if (x.shape.rank() != 2 || x.shape[0] % positions != 0 || x.shape[1] != 4 * quarter) {
    fail("rotate_",
         "rows of " + std::to_string(4 * quarter) + " for grids of " + std::to_string(angles.side) +
             " x " + std::to_string(angles.side),
         x.shape.str());
  }
  rotate_rows_(ctx, angles, 0, x);
}

void rotate_rows_(Context& ctx, const AxialAngles& angles, std::int64_t first, View rows) {
  constexpr std::int64_t kGrain = 64;  // docs/develop/optimizations.md: work-items
  const std::int64_t channels = rows.shape[1];
  parallel_for({ctx.num_threads, rows.shape[0], kGrain, channels * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t position = first + i;
                   rotate_row(angles, position / angles.side % angles.side, position % angles.side,
                              rows.data + i * channels);
                 }
               });
}

void rotate_heads_(Context& ctx, const AxialAngles& angles, std::int64_t heads, View map) {
  constexpr std::int64_t kGrain = 16;  // docs/develop/optimizations.md: work-items
  const std::int64_t head_dim = 4 * angles.cos.shape.last(), side = angles.side;
  if (map.shape.rank() != 4 || map.shape.last() < heads * head_dim) {
    fail("rotate_heads_",
         "a map (B, H, W, C) of at least " + std::to_string(heads * head_dim) + " channels",
         map.shape.str());
  }
  const std::int64_t height = map.shape[1], width = map.shape[2], row = map.shape.last();
  parallel_for({ctx.num_threads, map.shape.rows(), kGrain, row * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t y = i / width % height % side, x = i % width % side;
                   for (std::int64_t head = 0; head < heads; ++head) {
                     rotate_row(angles, y, x, map.data + i * row + head * head_dim);
                   }
                 }
               });
}

}  // namespace sam_rlx
