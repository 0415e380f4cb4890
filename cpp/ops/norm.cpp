#include "ops/norm.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernel_table.h"

namespace sam_rlx {

void layer_norm(Context& ctx, ConstView x, ConstView weight, ConstView bias, float eps, View out) {
  constexpr std::int64_t kGrain = 1 << 14;
  if (x.shape.rank() == 0 || weight.numel() != x.shape.last() || bias.numel() != x.shape.last()) {
    fail("layer_norm", "weight and bias for " + x.shape.str(),
         weight.shape.str() + " and " + bias.shape.str());
  }
  if (out.shape != x.shape) fail("layer_norm: result", x.shape.str(), out.shape.str());
  const std::int64_t cols = x.shape.last();
  if (cols == 0) return;
  parallel_for(ctx.num_threads, x.shape.rows(), std::max<std::int64_t>(1, kGrain / cols),
               [&](std::int64_t begin, std::int64_t end, int) {
                 ctx.kernels.layer_norm_rows(x.data + begin * cols, end - begin, cols, weight.data,
                                             bias.data, eps, out.data + begin * cols);
               });
}

}  // namespace sam_rlx
