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

}  // namespace

void rotate_(Context& ctx, const AxialAngles& angles, View x) {
  constexpr std::int64_t kGrain = 64;
  const std::int64_t places = angles.side * angles.side, quarter = angles.cos.shape.last();
  if (x.shape.rank() != 2 || x.shape[0] % places != 0 || x.shape[1] != 4 * quarter) {
    fail("rotate_",
         "rows of " + std::to_string(4 * quarter) + " for grids of " + std::to_string(angles.side) +
             " x " + std::to_string(angles.side),
         x.shape.str());
  }
  parallel_for(ctx.num_threads, x.shape[0], kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % angles.side * quarter;
      const std::int64_t line = i / angles.side % angles.side * quarter;
      float* const re = x.data + i * 4 * quarter;
      float* const im = re + 2 * quarter;
      rotate_pairs(angles.cos.data + column, angles.sin.data + column, quarter, re, im);
      rotate_pairs(angles.cos.data + line, angles.sin.data + line, quarter, re + quarter,
                   im + quarter);
    }
  });
}

}  // namespace sam_rlx
