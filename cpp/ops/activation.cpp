#include "ops/activation.h"

#include "core/parallel.h"
#include "kernels/kernel_table.h"

namespace sam_rlx {

void activation_(Context& ctx, Activation activation, View x) {
  constexpr std::int64_t kGrain = 1 << 14;  // docs/develop/optimizations.md: work-items
  if (activation == Activation::kNone) return;
  const std::int64_t work = activation == Activation::kGelu ? kFunctionWork : kNumberWork;
  parallel_for({ctx.num_threads, x.numel(), kGrain, work},
               [&](std::int64_t begin, std::int64_t end, int) {
                 if (activation == Activation::kGelu) {
                   ctx.kernels.gelu(x.data + begin, end - begin);
                 } else {
                   for (std::int64_t i = begin; i < end; ++i) {
                     x.data[i] = x.data[i] < 0.0F ? 0.0F : x.data[i];
                   }
                 }
               });
}

}  // namespace sam_rlx
