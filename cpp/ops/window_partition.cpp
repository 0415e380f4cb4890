#include "ops/window_partition.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {

void window_partition(Context& ctx, ConstView x, std::int64_t size, View out) {
  if (x.shape.rank() != 3 || size < 1 || x.shape[0] % size != 0 || x.shape[1] % size != 0) {
    fail("window_partition", "a map (H, W, C) whose sides are multiples of the window's",
         x.shape.str() + " and windows of " + std::to_string(size));
  }
  const std::int64_t width = x.shape[1], channels = x.shape[2], cols = width / size;
  const Shape expected{x.shape[0] / size * cols, size * size, channels};
  if (out.shape != expected) fail("window_partition: result", expected.str(), out.shape.str());
  const std::int64_t run = size * channels;  // numbers of a window that lie side by side
  parallel_for({ctx.num_threads, x.shape[0], 1, width * channels * kNumberWork},
               [&](std::int64_t y, std::int64_t, int) {
                 const float* from = x.data + y * width * channels;
                 float* to = out.data + (y / size * cols * size + y % size) * run;
                 for (std::int64_t i = 0; i < cols; ++i, from += run, to += size * run) {
                   std::copy_n(from, run, to);
                 }
               });
}

}  // namespace sam_rlx
