#include "ops/pool.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {

void max_pool2x2(Context& ctx, ConstView x, View out) {
  constexpr std::int64_t kGrain =
      1 << 14;  // of the result (docs/develop/optimizations.md: work-items)
  if (x.shape.rank() != 4 || x.shape[1] % 2 != 0 || x.shape[2] % 2 != 0) {
    fail("max_pool2x2", "a map (B, H, W, C) with even sides", x.shape.str());
  }
  const std::int64_t width = x.shape[2], stride = x.shape[3];
  const Shape expected{x.shape[0], x.shape[1] / 2, width / 2, std::min(stride, out.shape.last())};
  if (out.shape != expected) fail("max_pool2x2: result", expected.str(), out.shape.str());
  const std::int64_t channels = expected[3];
  if (out.numel() == 0) return;
  const std::int64_t out_width = width / 2;
  parallel_for({ctx.num_threads, expected.rows(), std::max<std::int64_t>(1, kGrain / channels),
                2 * channels * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   // Result rows of all maps below each other read two rows of x each.
                   const std::int64_t position = i / out_width * 2 * width + i % out_width * 2;
                   const float* const a = x.data + position * stride;
                   const float* const b = a + stride;
                   const float* const c = a + width * stride;
                   const float* const d = c + stride;
                   float* const to = out.data + i * channels;
                   for (std::int64_t k = 0; k < channels; ++k) {
                     const float top = a[k] > b[k] ? a[k] : b[k];
                     const float bottom = c[k] > d[k] ? c[k] : d[k];
                     to[k] = top > bottom ? top : bottom;
                   }
                 }
               });
}

}  // namespace sam_rlx
